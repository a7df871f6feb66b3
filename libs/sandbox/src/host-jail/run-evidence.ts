/** What this host sees of a run from outside, in addition to the agent's report. */
import type { Exit, SandboxSpec, Usage } from '@cofferdam/contract'
import type { Cgroup, CgroupCounters } from './cgroups.ts'
import { diskUse } from './disk-use.ts'
import { watchFolder } from './folder-watch.ts'
import type { RunWatch } from '../guest-slot.ts'
import { watchMemory } from './memory-watch.ts'
import type { ProcessIdentity } from './process-identity.ts'
import { treeCpuMs } from './tree-cpu.ts'

const MiB = 1024 * 1024

/** What this host sees of a slot from outside. */
export interface HostSlotView {
  /** The agent. */
  identity: ProcessIdentity
  /** Null if none can be created; memory is then watched from outside. */
  cgroup: Cgroup | null
  /** Where programs write on the host; null if they write to their own file systems. */
  folder: string | null
  /** Paths for `statfs` of the sandbox's own file systems. Empty if `folder` is set. */
  disks: readonly string[]
}

/**
 * Watches a run that is about to start: reads its counters, and watches what the kernel does not limit here
 * (memory without a cgroup, a host folder).
 */
export function watchRun(view: HostSlotView, { limits, reuse }: SandboxSpec): RunWatch {
  const { cgroup, identity, disks, folder } = view
  // Earlier runs of a cell do not count.
  if (reuse !== 'job') cgroup?.resetPeak()
  const before = cgroup?.read() ?? null
  // Without a cgroup, CPU time during the run can be measured only by a walk over the processes. That is
  // needed only for a limit of CPU time.
  const isWalked = cgroup === null && limits.cpu_time_ms !== undefined
  const cpuBefore = isWalked ? treeCpuMs(identity.pid) : null
  const memory = cgroup === null ? watchMemory(identity.pid, limits.memory_mib * MiB, disks) : null
  const disk = folder === null ? null : watchFolder(folder, limits.disk_mib, identity.pid)
  let isOver = false
  return {
    addTo(exit) {
      const after = cgroup?.read() ?? null
      const seen: Exit = {
        ...exit,
        usage: { ...exit.usage, ...measured(view, before, after) },
        diskLimitHit: exit.diskLimitHit || (disk?.kills ?? 0) > 0,
      }
      return before === null || after === null
        ? { ...seen, oomKills: exit.oomKills + (memory?.kills ?? 0) }
        : {
            ...seen,
            oomKills: after.oomKills - before.oomKills,
            pidsLimitHit: after.pidsHits > before.pidsHits,
          }
    },
    usage() {
      if (cgroup !== null) return measured(view, before, cgroup.read())
      if (cpuBefore === null || isOver) return null
      return { cpu_ms: treeCpuMs(identity.pid) - cpuBefore, ...measured(view, null, null) }
    },
    killedForMemory: () => (cgroup?.read().oomKills ?? 0) > (before?.oomKills ?? 0),
    stop() {
      isOver = true
      memory?.stop()
      disk?.stop()
    },
  }
}

function measured(
  { disks }: HostSlotView,
  before: CgroupCounters | null,
  now: CgroupCounters | null,
): Partial<Usage> {
  const disk = diskUse(disks)
  return {
    ...(now === null || before === null ? {} : counted(before, now)),
    ...(disk === null ? {} : { disk_bytes: disk.bytes }),
  }
}

const counted = (before: CgroupCounters, now: CgroupCounters): Partial<Usage> => ({
  cpu_ms: (now.cpuUs - before.cpuUs) / 1000,
  peak_memory_bytes: now.memoryPeak,
  ...(now.pidsPeak === null ? {} : { pids_peak: now.pidsPeak }),
})
