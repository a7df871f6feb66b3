/**
 * Ends slots of this host and proves it: slots of this worker, and slots that only a dead worker's record
 * names.
 */
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
 * After SIGKILL everything is gone in milliseconds; a CPU quota or a busy host stretches that (41 spinning
 * processes: 250 ms).
 */
const GONE_MS = 10_000
/**
 * An agent without a pid namespace ends what it started when its channel closes, and reaps it; then the tree
 * is killed.
 */
const OWN_END_MS = 250

/** The parts of a slot that is starting or running. */
export interface SlotRemains {
  owner: WorkerId
  id: SandboxId
  child: JailProcess | null
  /** The agent; null when it never started. */
  identity: ProcessIdentity | null
  uid: number | null
}

export interface Ends {
  /**
   * Kills a slot of this worker, proves it gone and removes its record. Throws `internal` when it still runs.
   */
  endSlot(remains: SlotRemains): Promise<void>
  /** The same for what a record names; 1 when something was there. */
  endRecorded(owner: WorkerId, id: SandboxId): Promise<number>
}

/** Creates the ends of one backend's slots. */
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
      // Whatever left the agent's tree is still in the slot's cgroup; where there is none, it still has the
      // slot's uid.
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
    // The folder first: without it nobody finds the slot, and a uid that stays taken harms nobody.
    await records.remove(owner, id)
    // A process that no signal reaches keeps its group busy; its uid is never given to another sandbox.
    if (isRemoved) uids?.release(id, uid)
  }

  return {
    async endSlot({ owner, id, child, identity, uid }) {
      if (identity !== null && deps.ownsPids) {
        killExactly(identity, place)
        // Our child waits for the init of the namespace, which the kernel lets go only after all others in
        // it.
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
      // A file of the runtime folder is believed about a group of this slot, and about no other.
      const recorded = (found.record?.cgroups ?? []).filter((folder) => basename(folder) === id)
      const cgroup = recorded.length > 0 ? cgroupAt(recorded) : ownGroup(id)
      // Another host's record (a shared folder) names a process that is not ours to judge.
      if (found.record !== null && found.record.place === place)
        await kill(found.record, found.record.ownsPids, id, cgroup)
      // Without a record the worker died while it opened the slot; only the mark tells what it had started.
      if (found.record === null)
        for (const identity of await findMarked(id, place)) await kill(identity, false, id, cgroup)
      await forget(owner, id, null, cgroup)
      return 1
    },
  }
}

/**
 * Without a pid namespace a process may have left the agent's tree (the agent was killed first). True when
 * none is left.
 */
async function killStrays(find: () => number[]): Promise<boolean> {
  const end = performance.now() + GONE_MS
  for (let pause = 1; ; pause = Math.min(pause * 2, 20)) {
    const pids = find()
    if (pids.length === 0) return true
    if (performance.now() > end) return false
    for (const pid of pids) signal(pid)
    // What is dead stays listed until its parent has reaped it.
    await sleep(pause)
  }
}

const isOver = (child: JailProcess): boolean =>
  child.exitCode !== null || child.signalCode !== null || child.pid === undefined

/** Resolves when the child has ended and was reaped, or after the time. */
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

/** Our own child is the agent or waits for it; either way it ends now, and Node reaps it. */
async function endChild(child: JailProcess, place: string): Promise<void> {
  if (isOver(child) || child.pid === undefined) return
  // Not only a kill: what it is just forking does not end with it yet (bwrap's child waits for it for ever).
  const identity = identityOf(child.pid, place)
  if (identity !== null) await killTree(identity, place, GONE_MS)
  child.kill('SIGKILL')
  await exitOf(child, GONE_MS)
}
