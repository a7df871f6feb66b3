/**
 * A session that is kept for the next execution of its name, whichever worker has that. It lives for an absolute time; one that
 * could end before the program's hard deadline is replaced. What the registry knows of it:
 *
 *   its name    from before it is asked for until it is gone, so that what was made is never forgotten
 *   its id      between turns alone: a turn that never ended, because its worker died, leaves a session that nobody can attach
 *               to, for its program may still run; whoever comes next stops it by its name
 */
import {
  CofferdamError,
  newSessionId,
  type SandboxSpec,
  type SessionEntry,
  type SessionLease,
  type SessionRegistry,
} from '@cofferdam/contract'
import { createCellSession, type CellSession } from './cell-session.ts'
import { openSession, stopByName, type OpenParts } from './open-session.ts'
import { keptName } from './session-name.ts'
import { claimSession } from '../remote/claim-session.ts'
import { traceParentOf } from './trace-parent.ts'

/** When the request does not say how long an idle session is kept. */
const IDLE_MS = 300_000
/** The service ends a session up to 3 s late (measured by others); ours is to end before. */
const MARGIN_MS = 60_000

export interface KeptSession {
  session: CellSession
  lease: SessionLease
  entry: SessionEntry
  fresh: boolean
}

export interface KeepParts extends OpenParts {
  registry: SessionRegistry
  backend: string
  prefix: string
  lifeMs: number
}

/** Throws `conflict` for a session with another scope or network, and what `openSession` throws. */
export async function openKept(
  parts: KeepParts,
  spec: SandboxSpec,
  interpreter: string,
  signal: AbortSignal,
): Promise<KeptSession> {
  const { scope } = spec.session ?? { scope: 'interpreter' as const }
  const lease = await claimSession(parts.registry, parts.backend, spec, signal)
  try {
    const both = AbortSignal.any([signal, lease.signal])
    const attached = await attach(parts, lease, spec, interpreter, both)
    if (attached !== null) return attached
    // Files are asked of a session that is there, and make none.
    if (spec.program.type === 'files') throw new CofferdamError('not_found', 'There is no such session.')
    return await make(parts, lease, spec, interpreter, scope, both)
  } catch (error) {
    await lease[Symbol.asyncDispose]()
    throw error
  }
}

/** Null when there is none that can be used; it has been stopped then. Throws, and leaves it as it is, when nobody could ask. */
async function attach(
  parts: KeepParts,
  lease: SessionLease,
  spec: SandboxSpec,
  interpreter: string,
  signal: AbortSignal,
): Promise<KeptSession | null> {
  const { entry } = lease
  if (entry === null) return null
  const { session, base } = entry.handle
  const lastsUntilMs = Date.now() + spec.limits.hard_timeout_ms + MARGIN_MS
  if (typeof session === 'string' && typeof base === 'string' && (entry.expiresAtMs ?? 0) > lastsUntilMs) {
    if (entry.scope !== spec.session?.scope || entry.handle['interpreter'] !== interpreter)
      throw new CofferdamError('conflict', 'The session is open with another scope or network.')
    const cell = createCellSession(parts.service, { interpreter, session }, base)
    const isAlive = await cell.isAlive(signal)
    signal.throwIfAborted()
    if (isAlive) {
      await lease.keep(inTurn(entry, spec))
      return { session: cell, lease, entry, fresh: false }
    }
  }
  await stopKept(parts, entry.handle)
  await lease.forget()
  return null
}

async function make(
  parts: KeepParts,
  lease: SessionLease,
  spec: SandboxSpec,
  interpreter: string,
  scope: SessionEntry['scope'],
  signal: AbortSignal,
): Promise<KeptSession> {
  const { key } = lease.name
  const name = keptName(parts.prefix, spec.tenantId, key, lease.nextEpoch)
  const nowMs = Date.now()
  const promised: SessionEntry = {
    sessionId: newSessionId(),
    scope,
    epoch: lease.nextEpoch,
    handle: { interpreter, name },
    createdAtMs: nowMs,
    usedAtMs: nowMs,
    idleAtMs: nowMs + idleMsOf(spec, null) + spec.limits.hard_timeout_ms,
    expiresAtMs: nowMs + parts.lifeMs,
  }
  await lease.keep(promised)
  const wish = {
    interpreter,
    name,
    seconds: Math.ceil(parts.lifeMs / 1000),
    token: [spec.tenantId, key, lease.nextEpoch],
    traceParent: traceParentOf(spec),
  }
  const session = await openSession(parts, wish, signal).catch(async (error: unknown) => {
    // What may be there still is known by its name until the next one, or the reaper, could stop it.
    await stopKept(parts, promised.handle)
      .then(() => lease.forget())
      .catch(() => undefined)
    throw error
  })
  const handle = { interpreter, name, session: session.id.session, base: session.base }
  return { session, lease, entry: { ...promised, handle }, fresh: true }
}

/** Keeps it for the next one. */
export async function putBack({ lease, entry, fresh }: KeptSession, spec: SandboxSpec): Promise<void> {
  const usedAtMs = Date.now()
  try {
    const idleMs = idleMsOf(spec, fresh ? null : entry)
    await lease.keep({ ...entry, usedAtMs, idleAtMs: usedAtMs + idleMs })
  } finally {
    // Also when Redis was too slow for that: else it is renewed, and nobody's, until this worker ends.
    await lease[Symbol.asyncDispose]()
  }
}

/** Ends it, and forgets it. Throws when its end is not known; the reaper then ends it by its name. */
export async function endKept({ service }: OpenParts, { lease, session }: KeptSession): Promise<void> {
  try {
    await service.stop(session.id)
    // Of a lease that is over the reaper takes care.
    await lease.forget().catch(() => undefined)
  } finally {
    await lease[Symbol.asyncDispose]()
  }
}

/** As it stands while a program runs in it. */
function inTurn(entry: SessionEntry, spec: SandboxSpec): SessionEntry {
  const { interpreter = '', name = '' } = entry.handle
  const usedAtMs = Date.now()
  const idleAtMs = usedAtMs + spec.limits.hard_timeout_ms + idleMsOf(spec, entry)
  return { ...entry, handle: { interpreter, name }, usedAtMs, idleAtMs }
}

/** Stops what an entry's handle names, also one whose id was never learnt; true when something was there. */
export async function stopKept({ service }: OpenParts, handle: SessionEntry['handle']): Promise<boolean> {
  const { interpreter, session, name } = handle
  if (typeof interpreter !== 'string') return false
  if (typeof session === 'string') return await service.stop({ interpreter, session })
  return typeof name === 'string' && (await stopByName(service, interpreter, name)) > 0
}

/** Who says nothing, as a look at its files does, leaves that of the session as it rested. */
const idleMsOf = (spec: SandboxSpec, rested: SessionEntry | null): number =>
  spec.session?.idleMs ?? (rested === null ? IDLE_MS : rested.idleAtMs - rested.usedAtMs)
