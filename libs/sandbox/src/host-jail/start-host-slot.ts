/**
 * Starts a slot up to the point where its interpreter waits for a program. No step depends on the program, so
 * a slot can start before its program is known.
 *
 *   record, uid, cgroup ─start─pid─join, save─release─R─▶ slot     failure or abort: ended, thrown
 *
 * The worker moves the agent into its cgroups while the agent's interpreter loads. Until `release`, the agent
 * starts no process.
 */
import { chownSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { CofferdamError, isCofferdamError, unlessAborted } from '@cofferdam/contract'
import { createGuestSession, type GuestSession } from '../guest/index.ts'
import type { SlotSpec } from '../warm/index.ts'
import type { Cgroup, Cgroups } from './cgroups.ts'
import type { Ends, SlotRemains } from './ends.ts'
import type { GuestSlot } from '../guest-slot.ts'
import { createHostSlot } from './host-slot.ts'
import { agentOf } from './process-identity.ts'
import type { Records } from './records.ts'
import type { DropTo, Launched, Rung } from './rung.ts'
import type { SlotUids } from './slot-uids.ts'

/**
 * Bytes of the stderr of an agent or bwrap that error messages get. These are the first bytes, not the last.
 */
const STDERR_MAX = 4096

export interface SlotStarter {
  name: string
  rung: Rung
  records: Records
  cgroups: Cgroups | null
  /** A uid per slot; null: all run as `dropTo`. */
  uids: SlotUids | null
  dropTo: DropTo | null
  ends: Ends
  place: string
  readyTimeoutMs: number
}

/**
 * Throws `conflict` for a used ID, `sandbox_open_failed`, or `signal`'s reason. If it throws, nothing of the
 * slot is left.
 */
export async function startHostSlot(
  starter: SlotStarter,
  spec: SlotSpec,
  signal: AbortSignal,
): Promise<GuestSlot> {
  const { name, rung, records, cgroups, uids, ends, place } = starter
  signal.throwIfAborted()
  const { slotId: id, owner } = spec
  const folder = await makeFolder(starter, spec)
  const remains: SlotRemains = { owner, id, child: null, identity: null, uid: null }
  let session: GuestSession | null = null
  let makingGroup: Promise<Cgroup | null> | null = null
  let lastWords = (): string => ''
  try {
    const user = uids?.take(id) ?? starter.dropTo
    remains.uid = uids === null ? null : (user?.uid ?? null)
    const home = join(folder, 'home')
    if (rung.usesFolder)
      for (const path of [home, join(home, 'tmp')]) {
        mkdirSync(path, { mode: 0o700 })
        if (user !== null) chownSync(path, user.uid, user.gid)
      }
    makingGroup = cgroups?.create(id, spec.limits, spec.cell) ?? Promise.resolve(null)
    makingGroup.catch(() => {})
    const launched = await rung.start({ spec, folder: home, hasCgroup: cgroups !== null, user })
    const { child } = launched
    remains.child = child
    lastWords = keepLastWords(child)
    if (child.stdin === null || child.stdout === null) throw new Error('no channel')
    const closed = Promise.withResolvers<CofferdamError>()
    session = createGuestSession({
      readable: child.stdout,
      writable: child.stdin,
      onClosed: closed.resolve,
    })
    const pid = await unlessAborted(launched.agentPid, signal)
    const identity = agentOf(child.pid, pid, place)
    if (identity === null) throw new Error(`the agent ended at once, or ${pid} is none of our processes`)
    remains.identity = identity
    const cgroup = await makingGroup
    const record = { ...identity, ownsPids: rung.ownsPids, cgroups: [...(cgroup?.folders ?? [])] }
    await Promise.all([records.save(owner, id, record), cgroup?.join(pid)])
    session.release(launched.options)
    await session.ready(AbortSignal.any([signal, AbortSignal.timeout(starter.readyTimeoutMs)]))
    const slot = createHostSlot({
      spec,
      session,
      identity,
      cgroup,
      folder: rung.ownDisks.length === 0 ? home : null,
      disks: rung.ownDisks.map((path) => join('/proc', String(pid), 'root', path)),
      closed: closed.promise,
      stderrTail: lastWords,
      destroy: () => ends.endSlot(remains).finally(() => cgroup?.close()),
    })
    // A child that dies closes its pipes, and with them the session.
    child.once('exit', () => session?.close())
    return slot
  } catch (error) {
    session?.close()
    // Wait for the group, because a group that is created after `endSlot` would stay.
    const made = await makingGroup?.catch(() => null)
    made?.close()
    await ends.endSlot(remains)
    signal.throwIfAborted()
    if (isCofferdamError(error) && error.code !== 'sandbox_lost') throw withLastWords(error, lastWords())
    throw new CofferdamError('sandbox_open_failed', `${name}: the sandbox did not start`, {
      cause: error,
      details: { said: lastWords() },
    })
  }
}

async function makeFolder({ name, records }: SlotStarter, { owner, slotId }: SlotSpec): Promise<string> {
  try {
    return await records.create(owner, slotId)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST')
      throw new CofferdamError('conflict', `${slotId} exists already.`)
    throw new CofferdamError('sandbox_open_failed', `${name}: no folder for the sandbox`, {
      cause: error,
    })
  }
}

function keepLastWords(child: Launched['child']): () => string {
  let words = Buffer.alloc(0)
  child.on('error', () => {})
  child.stderr?.on('data', (chunk: Buffer) => {
    words = Buffer.concat([words, chunk]).subarray(-STDERR_MAX)
  })
  return () => words.toString('utf8')
}

function withLastWords(error: CofferdamError, said: string): CofferdamError {
  if (said === '') return error
  return new CofferdamError(error.code, error.message, {
    cause: error,
    details: { ...error.details, said },
  })
}
