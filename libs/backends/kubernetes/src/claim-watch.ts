/**
 * One watch for all claims of a worker, however many there are: the API server tells what changes of those that bear its label.
 *
 *   first follower ─▶ list ─▶ watch from the list's version ──ended, broke off──▶ pause, watch from what was heard last
 *                      ▲                    └──ERROR (410 Gone), nothing heard, twice in a row──▶ pause ─┐
 *                      └─────────────────────────────────────────────────────────────────────────────────┘   last one gone: stopped
 *
 * Whoever follows a name before it makes the claim misses nothing: what the list does not have yet, the watch tells.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { claimSchema, type Claim } from './claim-state.ts'
import type { WatchEvent } from './kube-api.ts'

/** The server ends a watch after this, so that a half-open connection is noticed. */
const WATCH_SECONDS = 30
/** Beyond it: the server's own end takes its time on the way. */
const QUIET_MS = (WATCH_SECONDS + 10) * 1000
/** The pause after a watch that ended; it doubles while none holds. */
const PAUSE_MS = 100
const PAUSE_MAX_MS = 5_000
/** A watch that held so long was a good one. */
const STEADY_MS = 1_000
/** So many bad ones in a row are more than ten seconds of pauses. */
const TELL_AFTER = 8

/**
 * A claim as it is now, or `absent`: a list does not have it any more, or it left the watch. It may be gone or only bear another's
 * label now; reading it tells.
 */
export type Heard = Claim | 'absent'

export interface Followed {
  /** For a claim that is known to be there: hears at once what was heard last, then what comes. Replaces the listener before. */
  listen(listener: (heard: Heard) => void): void
}

export interface ClaimWatch {
  /** Follows a claim by its name from now on; the same for a name that is followed already. */
  follow(name: string): Followed
  /** Nothing is heard of it any more. The last one ends the watch. */
  unfollow(name: string): void
}

/** How claims of this worker's label are listed and watched. */
export interface ClaimSource {
  list(signal: AbortSignal): Promise<{ claims: Claim[]; version: string }>
  watch(version: string, seconds: number, signal: AbortSignal): AsyncIterable<WatchEvent>
  /** No watch has held for a while; claims are heard of late, by lists. */
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

/** Creates the watch; it asks for nothing before somebody follows. */
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
    // Whose claim is not known to be there yet may be absent for that reason alone.
    const known = [...followers].filter(([, { listener }]) => listener !== null)
    const { claims, version } = await source.list(signal)
    signal.throwIfAborted()
    const found = new Set(claims.map(({ metadata }) => metadata.name))
    for (const claim of claims) tell(claim.metadata.name, claim)
    for (const [name, follower] of known)
      if (!found.has(name) && followers.get(name) === follower) tell(name, 'absent')
    return version
  }

  /** Passes on one event; what the watch goes on from after it. Throws for the end of a version. */
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
      // Whatever it is that the server does not like, a list begins anew.
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

/** What the server asked for (`Retry-After`). */
const askedMs = (problem: unknown): number =>
  isCofferdamError(problem) ? Number(problem.details['retry_after_ms'] ?? 0) : 0

/** An ERROR event, or an answer that is no watch: most of all 410, a version that the server remembers no more. */
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
