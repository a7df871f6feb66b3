/**
 * Sandboxes by SandboxClaim (Agent Sandbox, extensions.agents.x-k8s.io).
 *
 *   followed ─▶ made ─▶ ready, with a pod's address ─▶ lost | let go | released
 *                 └─ a reason that does not heal, or the deadline ─▶ deleted, told
 *
 * Its `shutdownTime` is the backstop for a worker that died; the worker itself deletes it. A session's claim has no owner's
 * label, so that no janitor takes it for what a dead worker left: the registry says who may use it.
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
/** Whose workers keep the session. */
const FLEET_LABEL = 'cofferdam.dev/fleet'
/** Which process hears of it: the one that made it, or that took it over. */
const WATCHER_LABEL = 'cofferdam.dev/watcher'
/** An API server gives a request up after a minute (`--request-timeout`); then none comes late. */
const LATE_MS = 90_000
/** More within that time are an API server that is out; what is left out ends by the cluster's clock. */
const DOUBTED_MAX = 1000

/** What a claim is made for: it is named after `slot`, and belongs to a worker or to a session of its fleet. */
export type ClaimWish = { slot: SandboxId; owner: WorkerId; session?: SessionId }

/** The name of the claim that is made for it. */
export const claimName = (slot: SandboxId): string => `cofferdam-${slot.replaceAll('_', '-')}`

/** The claim that a ref's or an entry's handle names; null when it names none of ours. */
export function claimOf({ claim }: Record<string, string | number>): string | null {
  return typeof claim === 'string' && /^cofferdam-[a-z0-9-]{1,64}$/.test(claim) ? claim : null
}

export interface Claims {
  /**
   * The pod of a new claim, which is followed from then on until it is released or let go. Throws `sandbox_open_failed` |
   * `backend_unavailable` or the reason of `signal`; the claim is given up then.
   */
  acquire(wish: ClaimWish, lifeMs: number, signal: AbortSignal): Promise<ClaimedPod>
  /** The pod that the claim has by now, or will have, instead of one that could not be reached; null when it is still that one. */
  nextPod(pod: ClaimedPod, signal: AbortSignal): Promise<ClaimedPod | null>
  /** Moves the backstop to so long from now. Throws `sandbox_lost` when the claim is gone. */
  keep(claim: string, lifeMs: number): Promise<void>
  /** Takes over a claim that was acquired before, for so long; its pod, or null when it is gone, going or not to be had any more. */
  find(claim: string, lifeMs: number): Promise<ClaimedPod | null>
  /** Follows a pod's claim: aborts with `sandbox_lost` when the pod is its own no more, unless it was let go before. */
  lossOf(pod: ClaimedPod): AbortSignal
  /** Follows it no more; it stays. */
  letGo(claim: string): void
  /** Releases what failed. One that the API server does not delete now is left to `endLeft`, and to the cluster's clock. */
  giveUp(claim: string): Promise<void>
  /** Deletes it with all that hangs on it, and resolves when the API server knows it no more. False when there was none. */
  release(claim: string): Promise<boolean>
  /** Asks again for the end of what was released and not seen to be gone. Never throws. */
  endLeft(): Promise<void>
  list(owner: WorkerId | null): Promise<{ claim: string; owner: WorkerId }[]>
  /** Those of a fleet's sessions. */
  listKept(fleet: string): Promise<string[]>
  /** One short call that needs the rights and the pool. */
  ping(signal: AbortSignal): Promise<void>
}

/** Creates the claims of one namespace. Nothing is watched while no claim is waited for or held. */
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
  /** Claims whose create may be carried out once more, whatever becomes of them, and until when. */
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
      // Before it is made: so nothing that is said of it comes too early.
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
