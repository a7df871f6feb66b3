/**
 * One watch for all claims that have this worker's label.
 *
 *   first follower -> list -> watch from the list's version -> (a) pause, watch from the last version heard
 *                                                           -> (b) pause, list again
 *   last follower gone -> stopped
 *
 * (b): the server sent ERROR (410 Gone), the watch failed before any event, or two in a row ended within 1 s.
 * (a): the watch ended in any other way.
 *
 * A caller follows a name before it creates the claim, so it misses no event.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { claimSchema, type Claim } from './claim-state.ts'
import type { WatchEvent } from './kube-api.ts'

/** The server ends a watch after this time, so that a half-open connection is noticed. */
const WATCH_SECONDS = 30
/**
 * This worker ends a watch that lasts longer. The extra 10 s leave time for the server's own end to arrive.
 */
const QUIET_MS = (WATCH_SECONDS + 10) * 1000
/** The pause after a watch that ended. It doubles while watches keep failing. */
const PAUSE_MS = 100
const PAUSE_MAX_MS = 5_000
/** A watch that lasted this long counts as healthy. */
const STEADY_MS = 1_000
/**
 * Failures in a row after which `onTrouble` is called. The pauses between them took more than ten seconds.
 */
const TELL_AFTER = 8

/**
 * A claim, or `absent`: a list lacks it, or the watch dropped it. It may still exist: only a read tells
 * whether it is deleted.
 */
export type Heard = Claim | 'absent'

export interface Followed {
  /** Sets the listener of an existing claim. It gets the last state at once, and each later one. */
  listen(listener: (heard: Heard) => void): void
}

export interface ClaimWatch {
  /** Follows a claim by its name from now on. Following the same name again returns the same follower. */
  follow(name: string): Followed
  /** Stops following a claim. The watch ends with the last one. */
  unfollow(name: string): void
}

/** Lists and watches the claims of this worker's label. */
export interface ClaimSource {
  list(signal: AbortSignal): Promise<{ claims: Claim[]; version: string }>
  watch(version: string, seconds: number, signal: AbortSignal): AsyncIterable<WatchEvent>
  /** Called when watches keep failing. Until one works, only lists report changes, with a delay. */
  onTrouble(error: unknown): void
}

interface Follower {
  listener: ((heard: Heard) => void) | null
  last: Heard | null
}

const refusalSchema = z
  .object({
    reason: z.unknown(),
    code: z.unknown(),
    details: z.object({ retryAfterSeconds: z.number().nullish() }).nullish(),
  })
  .partial()
const versionSchema = z.object({ metadata: z.object({ resourceVersion: z.string().min(1) }) })

/** Creates the watch. It sends no request before a claim is followed. */
export function createClaimWatch(source: ClaimSource): ClaimWatch {
  const followers = new Map<string, Follower>()
  let running: AbortController | null = null

  function tell(name: string, heard: Heard): void {
    const follower = followers.get(name)
    if (follower === undefined) return
    follower.last = heard
    follower.listener?.(heard)
  }

  async function listed(signal: AbortSignal): Promise<string> {
    // A claim without a listener may not have been created yet.
    const known = [...followers].filter(([, { listener }]) => listener !== null)
    const { claims, version } = await source.list(signal)
    signal.throwIfAborted()
    const found = new Set(claims.map(({ metadata }) => metadata.name))
    for (const claim of claims) tell(claim.metadata.name, claim)
    for (const [name, follower] of known)
      if (!found.has(name) && followers.get(name) === follower) tell(name, 'absent')
    return version
  }

  /** Passes on an event. Returns the version to continue from; throws if that version has expired. */
  function passOn({ type, object }: WatchEvent, version: string): string {
    if (type === 'ERROR') throw new WatchRefused(object)
    const seen = versionSchema.safeParse(object)
    const claim = claimSchema.safeParse(object)
    if (claim.success && (type === 'ADDED' || type === 'MODIFIED')) tell(claim.data.metadata.name, claim.data)
    if (claim.success && type === 'DELETED') tell(claim.data.metadata.name, 'absent')
    return seen.success ? seen.data.metadata.resourceVersion : version
  }

  async function run(signal: AbortSignal): Promise<void> {
    let version: string | null = null
    for (let bad = 0; !signal.aborted;) {
      const since = performance.now()
      let problem: unknown = null
      let isHeard = false
      try {
        version ??= await listed(signal)
        const all = AbortSignal.any([signal, AbortSignal.timeout(QUIET_MS)])
        for await (const event of source.watch(version, WATCH_SECONDS, all)) {
          if (signal.aborted) return
          version = passOn(event, version)
          isHeard = true
        }
      } catch (error) {
        if (signal.aborted) return
        problem = error
        if (error instanceof WatchRefused || !isHeard) version = null
      }
      bad = performance.now() - since > STEADY_MS ? 1 : bad + 1
      // After repeated failures, start again with a list.
      if (bad > 1) version = null
      if (bad === TELL_AFTER) source.onTrouble(problem)
      const pause = Math.min(Math.max(PAUSE_MS * 2 ** (bad - 1), askedMs(problem)), PAUSE_MAX_MS)
      await sleep(pause, undefined, { signal }).catch(() => undefined)
    }
  }

  return {
    follow(name) {
      const follower = followers.get(name) ?? { listener: null, last: null }
      followers.set(name, follower)
      if (running === null) {
        running = new AbortController()
        void run(running.signal)
      }
      return {
        listen(listener) {
          follower.listener = listener
          if (follower.last !== null) listener(follower.last)
        },
      }
    },
    unfollow(name) {
      if (!followers.delete(name) || followers.size > 0) return
      running?.abort()
      running = null
    },
  }
}

/** The pause in milliseconds that the server asked for (`Retry-After`). */
const askedMs = (problem: unknown): number =>
  isCofferdamError(problem) ? Number(problem.details['retry_after_ms'] ?? 0) : 0

/** An ERROR event, or an answer that is no watch. Most often it is 410: the version has expired. */
class WatchRefused extends CofferdamError {
  constructor(status: unknown) {
    const { reason, code, details } = refusalSchema.catch({}).parse(status)
    super(
      'backend_unavailable',
      `Kubernetes: the watch of claims was refused with ${String(code)} ${String(reason)}.`,
      { details: { retry_after_ms: (details?.retryAfterSeconds ?? 0) * 1000 } },
    )
  }
}
