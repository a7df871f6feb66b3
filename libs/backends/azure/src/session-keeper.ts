/** Keeps a session for the next execution of its name (remote/take-turn.ts). */
import {
  isCofferdamError,
  type SandboxSpec,
  type SessionEntry,
  type SessionRegistry,
} from '@cofferdam/contract'
import {
  abortedAfter,
  limitsOf,
  refuseOther,
  type SessionLimits,
  cleanAndClose,
  type AtRest,
  type Rested,
  type SessionKeeper,
} from '@cofferdam/backend-remote'
import { kindOf, type Preloads, type SlotSpec } from '@cofferdam/sandbox/warm'
import { identifierOf, sessionSeed, type Identifiers } from './identifier.ts'
import { startSlot, type AzureSlot, type SlotParts, type SlotWish } from './start-slot.ts'

/**
 * How long an attach may still take after its attempt was stopped. If it takes longer, the next holder may
 * need a fresh session.
 */
const LET_GO_MS = 5_000
const HOUR_MS = 3_600_000
/** Subtracted from the end of the paid hour: the reaper's interval and the call itself. */
const HOUR_MARGIN_MS = 120_000

export interface KeeperParts extends SlotParts {
  identifiers: Identifiers
  limits: SessionLimits
  preloads: Preloads
}

/** Creates the keeper of the fleet's sessions in one pool. */
export function createKeeper(parts: KeeperParts, registry: SessionRegistry): SessionKeeper<AzureSlot> {
  const { config } = parts
  return {
    backend: parts.backend,
    registry,
    limits: parts.limits,
    startMs: config.ready_timeout_ms,
    logger: parts.logger,
    refuse: refuseOther,
    attach: (at) => attach(parts, at),
    promise: async ({ spec, key, epoch }) => ({
      handle: { seed: sessionSeed(spec.tenantId, key, epoch), boot: '', incarnation: '', ...limitsOf(spec) },
      expiresAtMs: Date.now() + config.cooldown_ms,
    }),
    async start({ spec, lease, entry, signal }) {
      const seed = String(entry.handle['seed'])
      const wish: SlotWish = {
        spec: slotSpec(parts, spec),
        identifier: await parts.identifiers.ofSession(seed),
        handle: { seed },
        fence: lease.fence,
        deadlines: deadlinesOf(spec),
        pod: null,
      }
      const held = await startSlot(parts, wish, signal)
      return { held, handle: { ...entry.handle, ...held.pod } }
    },
    async rest({ slot, release }, { spec, entry }) {
      await cleanAndClose(slot, entry.scope)
      await release(entry.scope)
      return restedNow(parts, spec, entry)
    },
    destroy: ({ slot }) => slot.destroy(),
    async end({ handle }) {
      const identifier = await identifierOf(parts.identifiers, handle)
      return identifier !== null && (await parts.atPool.end(identifier))
    },
  }
}

/**
 * Returns null if the session cannot be attached. Throws `backend_unavailable`. If the attempt is stopped
 * meanwhile, the session stays: the call in flight may finish within LET_GO_MS, so that the session can be
 * given back.
 */
async function attach(
  parts: KeeperParts,
  { spec, lease, entry, signal, begins }: AtRest,
): Promise<AzureSlot | null> {
  const { boot, incarnation } = entry.handle
  const identifier = await identifierOf(parts.identifiers, entry.handle)
  if (identifier === null) return null
  using patience = abortedAfter(signal, LET_GO_MS)
  const wish: SlotWish = {
    spec: slotSpec(parts, spec),
    identifier,
    handle: entry.handle,
    fence: lease.fence,
    deadlines: deadlinesOf(spec),
    pod: { boot: String(boot), incarnation: String(incarnation) },
  }
  const attached = await startSlot(parts, wish, patience.signal).catch((error: unknown) => {
    signal.throwIfAborted()
    if (isCofferdamError(error) && error.code === 'backend_unavailable') throw error
    return null
  })
  if (attached === null) return null
  try {
    signal.throwIfAborted()
    await begins()
    return attached
  } catch (error) {
    await letGo(parts, attached, entry)
    throw error
  }
}

/** Gives back a session that was attached but not used, so it is as clean as before. */
async function letGo(
  parts: KeeperParts,
  { slot, release }: AzureSlot,
  { scope, sessionId }: SessionEntry,
): Promise<void> {
  slot.session.close()
  await release(scope).catch((error: unknown) =>
    parts.logger.warn(
      { err: error, session: sessionId },
      'azure: a session could not be given back; its next holder makes another',
    ),
  )
}

/**
 * Changes to the registry entry after a turn: when the service ends the session, and until when a paid hour
 * keeps it.
 */
function restedNow({ config }: KeeperParts, spec: SandboxSpec, { createdAtMs }: SessionEntry): Rested {
  const now = Date.now()
  const expiresAtMs = now + config.cooldown_ms
  if (config.reap !== 'paid-hour') return { expiresAtMs }
  const hours = Math.ceil((now - createdAtMs + 1) / HOUR_MS)
  const paidUntilMs = createdAtMs + hours * HOUR_MS - HOUR_MARGIN_MS
  // The idle time counts from now.
  const idleAtMs = now + (spec.session?.idleMs ?? config.idle_ms)
  return { expiresAtMs, idleAtMs: Math.max(idleAtMs, paidUntilMs) }
}

/** The deadlines of the program. */
export const deadlinesOf = ({ limits }: SandboxSpec) => ({
  softMs: limits.soft_timeout_ms,
  hardMs: limits.hard_timeout_ms,
})

/** The slot that an execution needs. */
export const slotSpec = ({ preloads }: KeeperParts, spec: SandboxSpec): SlotSpec => ({
  ...kindOf(spec, preloads),
  slotId: spec.sandboxId,
  owner: spec.owner,
})
