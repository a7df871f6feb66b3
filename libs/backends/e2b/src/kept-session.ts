/**
 * Sessions kept for the next execution with the same key, on any worker: one sandbox whose agent waits
 * between turns with its kept interpreters and no open stream (remote/take-turn.ts).
 *
 * An entry holds no secret: the sandbox's token is requested with the API key.
 */
import {
  CofferdamError,
  isCofferdamError,
  turnMsOf,
  type SessionEntry,
  type SessionRegistry,
} from '@cofferdam/contract'
import type { GuestReady } from '@cofferdam/sandbox/guest'
import {
  abortedAfter,
  type RemoteSlot,
  limitsOf,
  refuseOther,
  type SessionLimits,
  cleanAndClose,
  type AtRest,
  type Kept,
  type Promised,
  type SessionKeeper,
} from '@cofferdam/backend-remote'
import { kindOf, type SlotSpec } from '@cofferdam/sandbox/warm'
import type { ControlApi, Created } from './control-api.ts'
import { killBySlot, type SandboxParts } from './create-sandbox.ts'
import { joinSlot, startSlot } from './start-slot.ts'

/** Default idle time of a session. A waiting machine costs money. */
export const IDLE_MS = 60_000
/**
 * Added to the idle time; then the vendor ends the session, for fleets without a reaper. A reaper runs every
 * 10 s by default, so it ends the session earlier, even if it is throttled.
 */
const REAP_MARGIN_MS = 60_000
/**
 * How long to wait for the agent's answer after the attempt was stopped. Without the answer the session ends.
 */
const LET_GO_MS = 5_000

export interface KeeperParts extends SandboxParts {
  backend: string
  registry: SessionRegistry
  limits: SessionLimits
  /** The vendor ends the sandbox this long after the hard deadline. */
  marginMs: number
}

/** Kills the sandbox of an entry's handle; true if there was one. */
export async function endKept(api: ControlApi, handle: SessionEntry['handle']): Promise<boolean> {
  const { sandbox, slot } = handle
  if (typeof sandbox === 'string') return await api.kill(sandbox)
  return typeof slot === 'string' && (await killBySlot(api, slot))
}

/** Implements kept sessions at E2B. */
export function createKeeper(parts: KeeperParts): SessionKeeper<RemoteSlot> {
  const { api, config, logger, marginMs } = parts
  const vendorEndOf = ({ createdAtMs }: SessionEntry): number => createdAtMs + config.max_life_ms

  async function attach({ spec, lease, entry, signal, begins }: AtRest): Promise<RemoteSlot | null> {
    const { sandbox, slot, ready } = entry.handle
    const lifeMs = turnMsOf(spec) + marginMs
    const isKept = typeof sandbox === 'string' && typeof slot === 'string' && typeof ready === 'string'
    const leftMs = vendorEndOf(entry) - Date.now()
    // A file operation takes seconds, so it may use a session whose time is almost over. Refusing it would
    // lose the files.
    const neededMs = spec.program.type === 'files' ? 0 : lifeMs
    if (!isKept || leftMs <= neededMs) return null
    let created: Created
    try {
      created = await api.connect(sandbox, Math.min(lifeMs, leftMs), signal)
    } catch (error) {
      if (isLost(error)) return null
      // The session was not touched, so the next caller finds it unchanged.
      throw error
    }
    // Write the entry first. The write fails if this worker lost its lease, because another worker may
    // already use the agent.
    await lease.keep(entry)
    using patience = abortedAfter(signal, LET_GO_MS)
    let joined: RemoteSlot
    try {
      const at = { created, slot, ready: JSON.parse(ready) as GuestReady }
      joined = await joinSlot(parts, slotSpec(spec), at, AbortSignal.any([patience.signal, lease.signal]))
    } catch (error) {
      // Give the session up even after an abort: a late answer would confuse the next worker that joins.
      logger.warn({ err: error, session: entry.sessionId }, 'e2b: a session does not answer and is ended')
      return null
    }
    try {
      signal.throwIfAborted()
      await begins()
      return joined
    } catch (error) {
      joined.session.close()
      throw error
    }
  }

  async function start({ spec, lease, entry, signal }: Promised): Promise<Kept<RemoteSlot>> {
    const isJailed = entry.scope === 'files'
    const held = await startSlot(parts, slotSpec(spec), { metadata: {}, isJailed }, signal)
    try {
      await held.keep(spec.limits.hard_timeout_ms + marginMs)
      signal.throwIfAborted()
      const { sandbox = '' } = held.handle
      const handle = { ...entry.handle, sandbox, ready: JSON.stringify(held.ready) }
      await lease.keep({ ...entry, handle })
      return { held, handle }
    } catch (error) {
      await held.destroy()
      throw isLost(error)
        ? new CofferdamError('sandbox_open_failed', 'e2b: the sandbox was gone before it was used', {
            cause: error,
          })
        : error
    }
  }

  return {
    backend: parts.backend,
    registry: parts.registry,
    limits: parts.limits,
    startMs: config.ready_timeout_ms,
    logger,
    refuse: refuseOther,
    attach,
    promise: async ({ spec }) => ({
      handle: { slot: spec.sandboxId, ...limitsOf(spec) },
      expiresAtMs: Date.now() + config.max_life_ms,
    }),
    start,
    async rest(slot, { entry, idleMs }) {
      await cleanAndClose(slot, entry.scope)
      await slot.keep(Math.min(idleMs + REAP_MARGIN_MS, vendorEndOf(entry) - Date.now()))
      return {}
    },
    destroy: (slot) => slot.destroy(),
    end: ({ handle }) => endKept(api, handle),
  }
}

const isLost = (error: unknown): boolean => isCofferdamError(error) && error.code === 'sandbox_lost'

const slotSpec = (spec: AtRest['spec']): SlotSpec => ({
  // No modules are imported ahead.
  ...kindOf(spec, {}),
  slotId: spec.sandboxId,
  owner: spec.owner,
})
