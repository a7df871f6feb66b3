/** Ends slots of this host with proof: this worker's slots, and slots in a dead worker's records. */
import { basename } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, type SandboxId, type WorkerId } from '@cofferdam/contract'
import { cgroupAt, type Cgroups, type FoundCgroup } from './cgroups.ts'
import {
  findMarked,
  identityOf,
  isRunning,
  killExactly,
  killTree,
  processesOf,
  signal,
  waitGone,
  type ProcessIdentity,
} from './process-identity.ts'
import type { Records } from './records.ts'
import type { SlotUids } from './slot-uids.ts'
import type { JailProcess } from './jail-process.ts'

/**
 * SIGKILL takes milliseconds. It takes longer with a CPU quota or on a busy host (41 spinning processes: 250
 * ms).
 */
const GONE_MS = 10_000
/** Time for an agent without a pid namespace to end and reap its children. Then the tree is killed. */
const OWN_END_MS = 250

/** Parts of a starting or running slot. */
export interface SlotRemains {
  owner: WorkerId
  id: SandboxId
  child: JailProcess | null
  /** The agent; null when it never started. */
  identity: ProcessIdentity | null
  uid: number | null
}

export interface Ends {
  /** Kills a slot, proves it gone and removes its record. Throws `internal` if it still runs. */
  endSlot(remains: SlotRemains): Promise<void>
  /**
   * Like endSlot, for a slot in the records, but kills no process of another host, boot or pid namespace.
   * Returns 0 if the slot has no folder, otherwise 1.
   */
  endRecorded(owner: WorkerId, id: SandboxId): Promise<number>
}

export function createEnds(deps: {
  records: Records
  cgroups: Cgroups | null
  uids: SlotUids | null
  place: string
  ownsPids: boolean
}): Ends {
  const { records, cgroups, uids, place } = deps
  const ownGroup = (id: SandboxId): FoundCgroup | null => cgroups?.find(id) ?? null

  async function kill(
    identity: ProcessIdentity,
    ownsPids: boolean,
    id: SandboxId,
    cgroup: FoundCgroup | null,
  ): Promise<void> {
    let gone: boolean
    if (ownsPids) {
      killExactly(identity, place)
      gone = await waitGone(identity, place, GONE_MS)
    } else {
      gone = await killTree(identity, place, GONE_MS)
      // Processes that left the agent's tree are in the slot's cgroup; without one, they have its uid.
      const uid = cgroup === null ? (uids?.of(id) ?? null) : null
      const left = uid === null ? () => cgroup?.pids() ?? [] : () => processesOf(uid)
      gone &&= await killStrays(left)
    }
    if (!gone)
      throw new CofferdamError('internal', 'a sandbox is still running after SIGKILL', {
        details: { pid: identity.pid },
      })
  }

  async function forget(
    owner: WorkerId,
    id: SandboxId,
    uid: number | null,
    cgroup: FoundCgroup | null,
  ): Promise<void> {
    const isRemoved = (await cgroup?.remove()) ?? true
    // Remove the record before the uid. If this worker dies in between, only a taken uid remains, which is
    // harmless.
    await records.remove(owner, id)
    // An unkillable process keeps its group busy, so its uid is never given to another sandbox.
    if (isRemoved) uids?.release(id, uid)
  }

  return {
    async endSlot({ owner, id, child, identity, uid }) {
      if (identity !== null && deps.ownsPids) {
        killExactly(identity, place)
        // Our child waits for the init of the pid namespace. The kernel ends init only after all other
        // processes in the namespace.
        if (child !== null) await exitOf(child, GONE_MS)
      } else if (identity !== null) await waitGone(identity, place, OWN_END_MS)
      if (identity !== null && (!deps.ownsPids || isRunning(identity, place)))
        await kill(identity, deps.ownsPids, id, ownGroup(id))
      if (child !== null) await endChild(child, place)
      await forget(owner, id, uid, ownGroup(id))
    },
    async endRecorded(owner, id) {
      const found = (await records.list(owner)).find((entry) => entry.id === id)
      if (found === undefined) return 0
      // A record may only name a group of its own slot.
      const recorded = (found.record?.cgroups ?? []).filter((folder) => basename(folder) === id)
      const cgroup = recorded.length > 0 ? cgroupAt(recorded) : ownGroup(id)
      // A record of another host (shared folder) names a process that this host cannot judge.
      if (found.record !== null && found.record.place === place)
        await kill(found.record, found.record.ownsPids, id, cgroup)
      // Without a record, the worker died while it opened the slot. Then only the environment variable MARK
      // identifies the slot's processes.
      if (found.record === null)
        for (const identity of await findMarked(id, place)) await kill(identity, false, id, cgroup)
      await forget(owner, id, null, cgroup)
      return 1
    },
  }
}

/** Kills processes that left the agent's tree without a pid namespace. True if none is left. */
async function killStrays(find: () => number[]): Promise<boolean> {
  const end = performance.now() + GONE_MS
  for (let pause = 1; ; pause = Math.min(pause * 2, 20)) {
    const pids = find()
    if (pids.length === 0) return true
    if (performance.now() > end) return false
    for (const pid of pids) signal(pid)
    // A dead process stays listed until its parent has reaped it.
    await sleep(pause)
  }
}

const isOver = (child: JailProcess): boolean =>
  child.exitCode !== null || child.signalCode !== null || child.pid === undefined

/** Resolves when the child has ended and was reaped, or after the timeout. */
async function exitOf(child: JailProcess, timeoutMs: number): Promise<void> {
  if (isOver(child)) return
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, timeoutMs)
    function done(): void {
      clearTimeout(timer)
      child.off('exit', done)
      resolve()
    }
    child.once('exit', done)
  })
}

/**
 * Our child is the agent or waits for it. Either way it ends now, and its parent (Node or the starter) reaps
 * it.
 */
async function endChild(child: JailProcess, place: string): Promise<void> {
  if (isOver(child) || child.pid === undefined) return
  // Kill the whole tree: a process that is just being forked survives the kill of its parent (bwrap's child
  // would then wait for ever).
  const identity = identityOf(child.pid, place)
  if (identity !== null) await killTree(identity, place, GONE_MS)
  child.kill('SIGKILL')
  await exitOf(child, GONE_MS)
}
