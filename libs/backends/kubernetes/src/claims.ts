/**
 * Sandboxes by SandboxClaim (Agent Sandbox, extensions.agents.x-k8s.io).
 *
 *   followed ─▶ made ─▶ ready, with a pod's address ─▶ lost | let go | released
 *                 └─ a reason that waiting does not fix, or the deadline ─▶ deleted, and an error is thrown
 *
 * The worker deletes its claims. If the worker died, the cluster deletes them at their `shutdownTime`. The
 * claim of a session has no owner label, so that no janitor deletes it. The registry says who may use it.
 */
import { randomBytes } from 'node:crypto'
import { CofferdamError, fleetOf, type SandboxId, type SessionId, type WorkerId } from '@cofferdam/contract'
import { SILENT, type BackendLogger } from '@cofferdam/sandbox/backend'
import { createLeftBehind } from '@cofferdam/backend-remote'
import { createClaimCalls, NothingMade } from './claim-calls.ts'
import { heldPodOf, isSamePod, type ClaimedPod } from './claim-state.ts'
import { lossSignal, untilReady } from './claim-waits.ts'
import { createClaimWatch } from './claim-watch.ts'
import type { KubernetesConfig } from './config.ts'
import type { KubeApi } from './kube-api.ts'

const OWNER_LABEL = 'cofferdam.dev/owner'
const SLOT_LABEL = 'cofferdam.dev/slot'
const SESSION_LABEL = 'cofferdam.dev/session'
/** The fleet whose workers share the session. */
const FLEET_LABEL = 'cofferdam.dev/fleet'
/** The process whose watch sees the claim: the one that created it, or that took it over. */
const WATCHER_LABEL = 'cofferdam.dev/watcher'
/** An API server carries out no request later than a minute after it came (`--request-timeout`). */
const LATE_MS = 90_000
/**
 * If more creates than this are in doubt, the API server has an outage. Claims beyond this number are left to
 * `shutdownTime`.
 */
const DOUBTED_MAX = 1000

/** What a claim is for. Its name comes from `slot`. It belongs to a worker, or to a session of the fleet. */
export type ClaimWish = { slot: SandboxId; owner: WorkerId; session?: SessionId }

/** Returns the claim name for a slot. */
export const claimName = (slot: SandboxId): string => `cofferdam-${slot.replaceAll('_', '-')}`

/** Returns the claim name in the handle of a ref or a registry entry, or null if it is not one of ours. */
export function claimOf({ claim }: Record<string, string | number>): string | null {
  return typeof claim === 'string' && /^cofferdam-[a-z0-9-]{1,64}$/.test(claim) ? claim : null
}

export interface Claims {
  /**
   * Creates a claim and waits for its pod. Follows the claim until it is released or let go. Throws
   * `sandbox_open_failed`, `backend_unavailable` or the reason of `signal`, and then gives the claim up.
   */
  acquire(wish: ClaimWish, lifeMs: number, signal: AbortSignal): Promise<ClaimedPod>
  /**
   * Call it when `pod` cannot be reached. Returns the pod that replaced it, or null if the claim still has
   * `pod`.
   */
  nextPod(pod: ClaimedPod, signal: AbortSignal): Promise<ClaimedPod | null>
  /** Sets `shutdownTime` to this many milliseconds from now. Throws `sandbox_lost` if the claim is gone. */
  keep(claim: string, lifeMs: number): Promise<void>
  /** Takes over a claim for this many milliseconds. Returns its pod; null if it is gone, ending or failed. */
  find(claim: string, lifeMs: number): Promise<ClaimedPod | null>
  /** A signal that aborts with `sandbox_lost` when the claim loses this pod, until the claim is let go. */
  lossOf(pod: ClaimedPod): AbortSignal
  /** Stops following the claim without deleting it. */
  letGo(claim: string): void
  /**
   * Deletes a failed claim. If that fails, `endLeft` retries, and the cluster deletes the claim at its
   * `shutdownTime`.
   */
  giveUp(claim: string): Promise<void>
  /** Deletes the claim and its dependents, and waits until it is gone. Returns false if there was none. */
  release(claim: string): Promise<boolean>
  /** Retries the deletion of released claims that are not known to be gone. Never throws. */
  endLeft(): Promise<void>
  list(owner: WorkerId | null): Promise<{ claim: string; owner: WorkerId }[]>
  /** Lists the claims of a fleet's sessions. */
  listKept(fleet: string): Promise<string[]>
  /** Makes a short request that needs the worker's rights and the warm pool. */
  ping(signal: AbortSignal): Promise<void>
}

/** Manages the claims of one namespace. Watches only while a claim is waited for or held. */
export function createClaims(api: KubeApi, config: KubernetesConfig, logger: BackendLogger = SILENT): Claims {
  const calls = createClaimCalls(api, config)
  const watcher = { [WATCHER_LABEL]: randomBytes(8).toString('hex') }
  const ours = `${WATCHER_LABEL}=${watcher[WATCHER_LABEL]}`
  const watch = createClaimWatch({
    list: (signal) => calls.list(ours, signal),
    watch: (version, seconds, signal) => calls.watch(ours, version, seconds, signal),
    onTrouble: (error) => logger.warn({ err: error }, 'kubernetes: the watch of claims does not hold'),
  })

  const left = createLeftBehind()
  /**
   * Claims that may still appear, because the answer to their create was lost. Value: until when (epoch
   * milliseconds).
   */
  const doubted = new Map<string, number>()

  function doubt(claim: string): void {
    const nowMs = Date.now()
    for (const [name, untilMs] of doubted) if (untilMs <= nowMs) doubted.delete(name)
    if (doubted.size < DOUBTED_MAX) doubted.set(claim, nowMs + LATE_MS)
  }

  async function release(claim: string): Promise<boolean> {
    watch.unfollow(claim)
    const comesUntilMs = doubted.get(claim) ?? 0
    doubted.delete(claim)
    return await left.end(claim, () => calls.remove(claim), { comesUntilMs })
  }

  async function giveUp(claim: string): Promise<void> {
    await release(claim).catch((error: unknown) =>
      logger.warn({ err: error, claim }, 'kubernetes: a claim that failed is left for later'),
    )
  }

  return {
    async acquire(wish, lifeMs, signal) {
      const name = claimName(wish.slot)
      const whose =
        wish.session === undefined
          ? { [OWNER_LABEL]: wish.owner }
          : { [SESSION_LABEL]: wish.session, [FLEET_LABEL]: fleetOf(wish.owner) }
      const labels = { ...whose, ...watcher, [SLOT_LABEL]: wish.slot }
      // Follow before creating, so that no event comes too early.
      const followed = watch.follow(name)
      try {
        const made = await calls.make({ name, labels, shutdownTime: timeIn(lifeMs) }, () => doubt(name))
        return await untilReady(made, followed, calls.read, signal)
      } catch (error) {
        if (error instanceof NothingMade) watch.unfollow(name)
        else await giveUp(name)
        throw error
      }
    },
    async nextPod(pod, signal) {
      const now = await calls.read(pod.claim)
      const held = now === null ? null : heldPodOf(now)
      if (now === null || (held !== null && isSamePod(held, pod))) return null
      return await untilReady(now, watch.follow(pod.claim), calls.read, signal, pod)
    },
    async keep(claim, lifeMs) {
      if ((await calls.patch(claim, { spec: lifeOf(lifeMs) })) === null)
        throw new CofferdamError('sandbox_lost', `Kubernetes: the claim ${claim} is gone.`)
    },
    async find(claim, lifeMs) {
      const found = await calls.patch(claim, { metadata: { labels: watcher }, spec: lifeOf(lifeMs) })
      return found === null ? null : heldPodOf(found)
    },
    lossOf: (pod) => lossSignal(pod, watch.follow(pod.claim), calls.read),
    letGo: (claim) => watch.unfollow(claim),
    giveUp,
    release,
    endLeft: () => left.endAll(),
    async list(owner) {
      const { claims } = await calls.list(owner === null ? OWNER_LABEL : `${OWNER_LABEL}=${owner}`)
      return claims.map(({ metadata: { name, labels } }) => ({
        claim: name,
        owner: labels?.[OWNER_LABEL] as WorkerId,
      }))
    },
    async listKept(fleet) {
      const { claims } = await calls.list(`${SESSION_LABEL},${FLEET_LABEL}=${fleet}`)
      return claims.map(({ metadata }) => metadata.name)
    },
    ping: (signal) => calls.ping(signal),
  }
}

const lifeOf = (ms: number): object => ({ lifecycle: { shutdownTime: timeIn(ms) } })

const timeIn = (ms: number): string => new Date(Date.now() + ms).toISOString().replace(/\.\d+Z$/, 'Z')
