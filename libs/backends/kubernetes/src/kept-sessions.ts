/**
 * Sessions of the whole fleet: their pod outlives the worker that claimed it, and any worker attaches to it while it holds the
 * session's lease (remote/take-turn.ts). A turn is written before its worker connects: a pod has one connection, and one that a
 * worker has which was replaced meanwhile would keep the next one out. Should such a one connect all the same, the pod
 * refuses a fence that is not higher than the last. A pod whose worker died in its turn ends with its connection.
 */
import type { SandboxSpec, SessionEntry, SessionRegistry } from '@cofferdam/contract'
import type { BackendLogger } from '@cofferdam/sandbox/backend'
import {
  createForgottenSessions,
  type RemoteSlot,
  limitsOf,
  refuseOther,
  type SessionLimits,
  type AtRest,
  type SessionKeeper,
  bindTurn,
  cleanAndClose,
  takeTurn,
} from '@cofferdam/backend-remote'
import { type BoundSlot, type Preloads, kindOf, type SlotSpec } from '@cofferdam/sandbox/warm'
import { claimName, claimOf, type Claims } from './claims.ts'
import type { KubernetesConfig } from './config.ts'
import { sessionKey } from './session-keys.ts'
import { attachSlot, startSlot } from './start-slot.ts'

/** A pod that listens answers in milliseconds, on a busy node in seconds; then a fresh one is the better place. */
const ATTACH_MS = 10_000
/** Beyond turn and idle time: the worker or the reaper deletes a claim itself, the cluster's clock is for when none does. */
const LIFE_MARGIN_MS = 30_000

export interface KeptParts {
  backend: string
  config: KubernetesConfig
  secretFile: string
  claims: Claims
  registry: SessionRegistry
  preloads: Preloads
  limits: SessionLimits
  /** Of this worker; null where it has none, and then ends nothing that the registry has lost. */
  fleet: string | null
  logger: BackendLogger
}

export interface KeptSessions {
  /** Throws like `startSlot`; `conflict` for a session of other limits or scope, or that stays held; `not_found`. */
  take(spec: SandboxSpec, signal: AbortSignal): Promise<BoundSlot<RemoteSlot>>
  /** Ends what an entry names; true when something was there. */
  end(entry: SessionEntry): Promise<boolean>
  /** Ends what no entry names any more. Throws when the cluster does not say what there is. */
  endForgotten(): Promise<void>
}

/** Creates the sessions of one backend. */
export function createKeptSessions(parts: KeptParts): KeptSessions {
  const { claims, config, limits, logger, fleet } = parts
  const forgotten = createForgottenSessions({
    ...parts,
    field: 'claim',
    afterMs: config.forgotten_after_ms,
    end: ({ name }) => claims.release(name),
  })

  async function attach({ spec, lease, entry, idleMs, signal, begins }: AtRest): Promise<RemoteSlot | null> {
    const claim = claimOf(entry.handle)
    const key = await keyOf(claim ?? '')
    // Its time in the cluster is set by whoever holds it: one that stood still meanwhile would cut the next one's turn short.
    signal.throwIfAborted()
    const lifeMs = lifeOf(spec, idleMs)
    const expiresAtMs = Date.now() + lifeMs
    const pod = claim === null ? null : await claims.find(claim, lifeMs)
    if (pod === null) return null
    await begins({ expiresAtMs })
    const inTime = AbortSignal.any([signal, AbortSignal.timeout(ATTACH_MS)])
    try {
      return await attachSlot(parts, slotSpec(spec), pod, { key, fence: lease.fence }, inTime)
    } catch (error) {
      if (signal.aborted) {
        // Nothing was asked of it, so it waits on, whatever it heard of us.
        await lease.keep(entry).catch(() => undefined)
        throw signal.reason
      }
      logger.info({ err: error, session: entry.sessionId }, 'kubernetes: a session begins anew')
      return null
    }
  }

  async function end(entry: SessionEntry): Promise<boolean> {
    const claim = claimOf(entry.handle)
    return claim !== null && (await claims.release(claim))
  }

  const keyOf = (claim: string): Promise<Buffer> => sessionKey(parts.secretFile, config.namespace, claim)

  const slotSpec = (spec: SandboxSpec): SlotSpec => ({
    ...kindOf(spec, parts.preloads),
    slotId: spec.sandboxId,
    owner: spec.owner,
  })

  /** Of a claim: a turn, the wait after it, and the margin. */
  const lifeOf = (spec: SandboxSpec, idleMs: number): number =>
    spec.limits.hard_timeout_ms + idleMs + LIFE_MARGIN_MS

  const keeper: SessionKeeper<RemoteSlot> = {
    backend: parts.backend,
    registry: parts.registry,
    limits,
    startMs: config.ready_timeout_ms,
    logger,
    refuse: refuseOther,
    attach,
    async promise({ spec, idleMs }) {
      const claim = claimName(spec.sandboxId)
      // Fails before anything is written where there is no secret for it.
      await keyOf(claim)
      const expiresAtMs = Date.now() + config.ready_timeout_ms + lifeOf(spec, idleMs)
      return { handle: { claim, ...limitsOf(spec) }, expiresAtMs }
    },
    async start({ spec, lease, entry, idleMs, signal }) {
      const key = await keyOf(claimName(spec.sandboxId))
      const kept = { session: entry.sessionId, key, fence: lease.fence }
      const waits = { claims, config, waitMs: lifeOf(spec, idleMs) }
      return { held: await startSlot(waits, slotSpec(spec), signal, kept), handle: entry.handle }
    },
    async rest(slot, { entry }) {
      await cleanAndClose(slot, entry.scope)
      return {}
    },
    destroy: (slot) => slot.destroy(),
    end,
  }

  return {
    async take(spec, signal) {
      const turn = await takeTurn(keeper, spec, signal)
      return bindTurn(turn, turn.held)
    },
    end,
    async endForgotten() {
      if (fleet === null) return
      const kept = await claims.listKept(fleet)
      await forgotten.endAmong(kept.map((claim) => ({ id: claim, name: claim })))
    },
  }
}
