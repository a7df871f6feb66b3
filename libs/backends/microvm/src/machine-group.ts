/**
 * What this host allows a machine: a cgroup around the VMM, if this worker can make one. The guest's own
 * cgroup has the limits of the program. This one holds if the guest lies, or if a program broke out into the
 * VMM.
 */
import type { SandboxId } from '@cofferdam/contract'
import type { Cgroup, Cgroups } from '@cofferdam/sandbox/backend'
import type { MachineSpec } from './engine.ts'

/** Memory for QEMU itself and for the code that it translates when it emulates. */
const VMM_MIB = 512
/** QEMU has a few threads beside one for each CPU, and starts up to 64 for its drives. */
const VMM_THREADS = 80
/** For the threads of the VMM other than those that run the guest's CPUs. */
const VMM_CPUS = 1

export interface MachineGroup {
  /**
   * The group's folders, kept in the record so that another worker can remove the group. They may not exist
   * yet.
   */
  readonly folders: readonly string[]
  /** Moves the VMM into the group, which takes milliseconds. `joined` tells when it is done. */
  join(pid: number): void
  readonly joined: Promise<unknown>
  /** How many processes of the group this host's kernel killed for memory. */
  oomKills(): number
  /** Removes the group, whose VMM must be gone. */
  remove(): Promise<void>
}

/** Begins to make the group. Its limits are higher than a healthy machine of this size ever needs. */
export function createMachineGroup(cgroups: Cgroups | null, id: SandboxId, spec: MachineSpec): MachineGroup {
  const limits = {
    memory_mib: spec.memoryMib + VMM_MIB,
    cpus: spec.vcpus + VMM_CPUS,
    pids: spec.vcpus + VMM_THREADS,
    disk_mib: 0,
  }
  const making: Promise<Cgroup | null> = cgroups?.create(id, limits, false) ?? Promise.resolve(null)
  let joined: Promise<unknown> = making
  let group: Cgroup | null = null
  making.catch(() => {})
  return {
    folders: cgroups?.find(id).folders ?? [],
    join(pid) {
      joined = making.then(async (made) => {
        group = made
        await made?.join(pid)
      })
      joined.catch(() => {})
    },
    get joined() {
      return joined
    },
    oomKills: () => group?.read().oomKills ?? 0,
    async remove() {
      await joined.catch(() => {})
      const made = await making.catch(() => null)
      await made?.remove()
      made?.close()
    },
  }
}
