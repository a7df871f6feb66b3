/**
 * Sandboxes of this worker that may still exist. Each is killed by its ref until its backend confirms it. The
 * janitor destroys only sandboxes of dead workers, so otherwise a sandbox that failed to end would run until
 * its vendor ends it.
 *
 *   added → its end, which is under way, succeeds         → gone
 *         → it fails, or is still under way after END_MS → kill → succeeds → gone
 *                                                                → fails   → growing pause → kill …
 *   the worker closes → one last kill → the janitors of other workers destroy what is left
 */
import { setTimeout as after } from 'node:timers/promises'
import { inTime, unlessAborted, type Backend, type SandboxRef } from '@cofferdam/contract'

/**
 * How long the regular end of a sandbox may take. It may still save the session for its next turn. The
 * executor holds the memory for the same time.
 */
const END_MS = 60_000
/** For backends whose calls have no shorter timeout. */
const KILL_MS = 60_000
const FIRST_PAUSE_MS = 1_000
const LAST_PAUSE_MS = 60_000
/** How long the end of a worker waits for the last kills. */
const CLOSE_MS = 5_000
/**
 * With this many, the vendor evidently does not answer at all. Further sandboxes are left to its own timeout.
 */
const KEPT_MAX = 1_000

export interface Leftovers extends AsyncDisposable {
  /**
   * Repeats the kill until the sandbox is gone. `ending` is its regular end, if one is under way. Resolves to
   * true when the sandbox is proven gone, and to false if this worker gives up. Never rejects.
   */
  add(ref: SandboxRef, ending?: Promise<void>): Promise<boolean>
  /** Number of sandboxes that may still exist. */
  readonly size: number
}

/** `pauseMs` is the pause after the first failed kill. Default: one second. */
export function createLeftovers(deps: {
  backend(name: string): Pick<Backend, 'kill'> | undefined
  onGone(ref: SandboxRef): void
  onError(error: unknown, ref: SandboxRef): void
  pauseMs?: number
}): Leftovers {
  const closing = new AbortController()
  const kept = new Map<SandboxRef, Promise<boolean>>()

  /**
   * Waits for the sandbox's regular end, then kills it until it is gone or the worker closes. Returns whether
   * it is gone. Never rejects.
   */
  async function endOf(ref: SandboxRef, ending: Promise<void> | undefined): Promise<boolean> {
    let isGone = (ending !== undefined && (await succeeds(ending))) || (await isKilled(ref))
    let pauseMs = deps.pauseMs ?? FIRST_PAUSE_MS
    while (!isGone && !closing.signal.aborted) {
      await after(pauseMs, undefined, { ref: false, signal: closing.signal }).catch(() => undefined)
      pauseMs = Math.min(pauseMs * 2, LAST_PAUSE_MS)
      isGone = await isKilled(ref)
    }
    if (isGone) deps.onGone(ref)
    kept.delete(ref)
    return isGone
  }

  async function succeeds(ending: Promise<void>): Promise<boolean> {
    const late = (): Error => new Error('the end of a sandbox is still under way')
    return await unlessAborted(inTime(ending, END_MS, late), closing.signal).then(
      () => true,
      () => false,
    )
  }

  async function isKilled(ref: SandboxRef): Promise<boolean> {
    try {
      const late = (): Error => new Error(`${ref.backend} did not answer a kill in ${KILL_MS} ms`)
      await inTime(deps.backend(ref.backend)?.kill(ref) ?? Promise.resolve(false), KILL_MS, late)
      return true
    } catch (error) {
      deps.onError(error, ref)
      return false
    }
  }

  return {
    get size() {
      return kept.size
    },
    async add(ref, ending) {
      if (kept.size >= KEPT_MAX || closing.signal.aborted) {
        deps.onError(new Error('left to its vendor’s own clock'), ref)
        return false
      }
      const gone = endOf(ref, ending)
      kept.set(ref, gone)
      return await gone
    },
    async [Symbol.asyncDispose]() {
      closing.abort()
      const late = (): Error => new Error('left to the janitors of other workers')
      await inTime(Promise.all(kept.values()), CLOSE_MS, late).catch(() => undefined)
    },
  }
}
