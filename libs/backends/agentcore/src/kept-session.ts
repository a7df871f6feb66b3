/**
 * Sessions kept for the next execution with the same key, on any worker (remote/take-turn.ts). A session
 * lives for an absolute time. It is replaced if it could end before a program's hard deadline. The entry
 * holds the session's name before the session is requested, so that none is forgotten. It gets the session's
 * ID at the end of the first turn, or at once if the session was warm.
 */
import { CofferdamError, type SessionEntry, type SessionRegistry } from '@cofferdam/contract'
import type { SessionLimits, AtRest, Kept, Promised, SessionKeeper } from '@cofferdam/backend-remote'
import { createCellSession, type CellSession } from './cell-session.ts'
import { discard, openSession, stopByName, type OpenParts } from './open-session.ts'
import { keptName } from './session-name.ts'
import { traceParentOf } from './trace-parent.ts'
import type { Waited } from './warm-sessions.ts'

/**
 * A session must last this much longer than a program's hard deadline. The service ends a session up to 3 s
 * late (measured by others).
 */
const MARGIN_MS = 60_000

export interface KeeperParts extends OpenParts {
  /** Takes a warm session for a kept session's first execution; null if none lives that long. */
  takeWaiting(lastsUntilMs: number, signal: AbortSignal): Promise<Waited | null>
  registry: SessionRegistry
  backend: string
  limits: SessionLimits
  prefix: string
  lifeMs: number
}

/** Implements kept sessions in this interpreter. */
export function createKeeper(parts: KeeperParts, interpreter: string): SessionKeeper<CellSession> {
  const { service, lifeMs } = parts

  async function attach({ spec, entry, signal, begins }: AtRest): Promise<CellSession | null> {
    const { interpreter: its, session, base } = entry.handle
    const lastsUntilMs = Date.now() + spec.limits.hard_timeout_ms + MARGIN_MS
    if (typeof its !== 'string' || typeof session !== 'string' || typeof base !== 'string') return null
    if (entry.createdAtMs + lifeMs <= lastsUntilMs) return null
    const cell = createCellSession(service, { interpreter: its, session }, base)
    const isAlive = await cell.isAlive(signal)
    signal.throwIfAborted()
    if (!isAlive) return null
    await begins()
    return cell
  }

  return {
    backend: parts.backend,
    registry: parts.registry,
    limits: parts.limits,
    startMs: parts.readyMs,
    logger: parts.logger,
    refuse(entry, spec) {
      // File operations are allowed in a session of any scope or network.
      if (spec.program.type === 'files') return
      if (entry.scope !== spec.session?.scope || entry.handle['interpreter'] !== interpreter)
        throw new CofferdamError('conflict', 'The session is open with another scope or network.')
    },
    attach,
    promise: async ({ spec, key, epoch }) => ({
      handle: { interpreter, name: keptName(parts.prefix, spec, key, epoch) },
      expiresAtMs: Date.now() + lifeMs,
    }),
    async start({ spec, lease, entry, signal }) {
      const waited = await parts.takeWaiting(entry.createdAtMs + lifeMs, signal)
      if (waited !== null) return await adopt(parts, waited, { lease, entry })
      const wish = {
        interpreter,
        name: String(entry.handle['name']),
        seconds: Math.ceil(lifeMs / 1000),
        token: [spec.tenantId, lease.name.key, entry.epoch],
        traceParent: traceParentOf(spec),
      }
      const held = await openSession(parts, wish, signal)
      return { held, handle: { ...entry.handle, session: held.id.session, base: held.base } }
    },
    // Nothing can prove the session clean. What its programs leave stays in the session.
    rest: async () => ({}),
    destroy: ({ id }) => service.stop(id),
    end: ({ handle }) => stopKept(parts, handle),
  }
}

/** Makes a warm session the kept session. Writes its name into the entry first, so that no sweep stops it. */
async function adopt(
  parts: OpenParts,
  { session: held, name }: Waited,
  { lease, entry }: Pick<Promised, 'lease' | 'entry'>,
): Promise<Kept<CellSession>> {
  const handle = { ...entry.handle, name, session: held.id.session, base: held.base }
  try {
    await lease.keep({ ...entry, handle })
  } catch (error) {
    await discard(parts, held.id)
    throw error
  }
  return { held, handle }
}

/** Stops the session of an entry's handle, even if its ID was never learnt. True if there was one. */
export async function stopKept({ service }: OpenParts, handle: SessionEntry['handle']): Promise<boolean> {
  const { interpreter, session, name } = handle
  if (typeof interpreter !== 'string') return false
  if (typeof session === 'string') return await service.stop({ interpreter, session })
  return typeof name === 'string' && (await stopByName(service, interpreter, name)) > 0
}
