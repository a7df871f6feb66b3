/**
 * Sessions of the whole fleet. Their pod outlives the worker that claimed it. Any worker attaches to it while
 * it holds the session's lease. A turn is recorded before its worker connects, because a pod has one
 * connection: a former holder must not block the next one. If a former holder connects all the same, the pod
 * refuses its fence, which is not higher than the last. If a worker dies in a turn, its pod ends with the
 * connection.
 */
import { turnMsOf, type SandboxSpec, type SessionEntry, type SessionRegistry } from '@cofferdam/contract'
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

/** A pod answers in milliseconds, on a busy node in seconds. After this time a fresh pod is better. */
const ATTACH_MS = 10_000
/** Added to turn and idle time. A worker deletes the claim before, so this only matters if none does. */
const LIFE_MARGIN_MS = 30_000

export interface KeptParts {
  backend: string
  config: KubernetesConfig
  secretFile: string
  claims: Claims
  registry: SessionRegistry
  preloads: Preloads
  limits: SessionLimits
  /** The fleet of this worker. Null: claims that the registry lost are not deleted. */
  fleet: string | null
  logger: BackendLogger
}

export interface KeptSessions {
  /**
   * Throws like `startSlot`. Throws `conflict` if the session has other limits or scope, or stays held, and
   * `session_not_found` if the execution may not create it.
   */
  take(spec: SandboxSpec, signal: AbortSignal): Promise<BoundSlot<RemoteSlot>>
  /** Ends the pod of an entry. Returns true if there was one. */
  end(entry: SessionEntry): Promise<boolean>
  /** Deletes claims that no entry names any more. Throws if the cluster does not list its claims. */
  endForgotten(): Promise<void>
}

/** Manages the sessions of one backend. */
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
    // Only the new holder sets the claim's lifetime, because a suspended former holder could shorten it.
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
        // The pod received no request, so it keeps waiting.
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

  /** Lifetime of a claim in milliseconds: a turn, the idle time after it, and the margin. */
  const lifeOf = (spec: SandboxSpec, idleMs: number): number => turnMsOf(spec) + idleMs + LIFE_MARGIN_MS

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
      // Throws before anything is written if the secret cannot be read.
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
