/**
 * Sandboxes of this worker that were not proven gone: each is killed again by its ref until its backend says that it is. The janitor
 * looks after those of dead workers alone, so without this one whose end failed once would run until its vendor's own clock ends it.
 *
 *   kept ─ its end, under way, succeeds ─▶ gone
 *     └─ failed, or still under way after LEAK_HOLD_MS ─▶ kill ─ resolves ─▶ gone
 *                                                          └─ fails ─▶ a pause that grows ─▶ kill …
 *   the worker closes ─▶ one last kill ─▶ what still fails is left to the janitors of other workers, as after a death
 */
import { setTimeout as after } from 'node:timers/promises'
import { inTime, type Backend, type SandboxRef } from '@cofferdam/contract'

/** An end under way may still keep a session for its next turn, so it is not cut short: no sandbox's memory is held longer (executor). */
const END_MS = 60_000
/** A call of a backend has its own, shorter patience; this is for one that has none. */
const KILL_MS = 60_000
const FIRST_PAUSE_MS = 1_000
const LAST_PAUSE_MS = 60_000
/** Whoever closes a worker waits for its last kills, not for a vendor that hangs. */
const CLOSE_MS = 5_000
/** More at once means that a vendor is away altogether: the newest are left to its own clock. */
const KEPT_MAX = 1_000

export interface Leftovers extends AsyncDisposable {
  /** `ending`: its end, when that is still under way. */
  add(ref: SandboxRef, ending?: Promise<void>): void
  /** How many are not known to be gone. */
  readonly size: number
}

/** Keeps what may be left. `pauseMs`: before the first kill after one that failed. */
export function createLeftovers(deps: {
  backend(name: string): Pick<Backend, 'kill'> | undefined
  onGone(ref: SandboxRef): void
  onError(error: unknown, ref: SandboxRef): void
  pauseMs?: number
}): Leftovers {
  const closing = new AbortController()
  const kept = new Map<SandboxRef, Promise<void>>()

  /** Never rejects. */
  async function endOf(ref: SandboxRef, ending: Promise<void> | undefined): Promise<void> {
    const isEnded = ending !== undefined && (await succeeds(ending))
    let pauseMs = deps.pauseMs ?? FIRST_PAUSE_MS
    while (!isEnded && !(await isKilled(ref)) && !closing.signal.aborted) {
      await after(pauseMs, undefined, { ref: false, signal: closing.signal }).catch(() => undefined)
      pauseMs = Math.min(pauseMs * 2, LAST_PAUSE_MS)
    }
    kept.delete(ref)
  }

  async function succeeds(ending: Promise<void>): Promise<boolean> {
    const late = (): Error => new Error('the end of a sandbox is still under way')
    return await inTime(ending, END_MS, late).then(
      () => true,
      () => false,
    )
  }

  async function isKilled(ref: SandboxRef): Promise<boolean> {
    try {
      const late = (): Error => new Error(`${ref.backend} did not answer a kill in ${KILL_MS} ms`)
      await inTime(deps.backend(ref.backend)?.kill(ref) ?? Promise.resolve(false), KILL_MS, late)
      deps.onGone(ref)
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
    add(ref, ending) {
      if (kept.size >= KEPT_MAX || closing.signal.aborted)
        return deps.onError(new Error('left to its vendor’s own clock'), ref)
      kept.set(ref, endOf(ref, ending))
    },
    async [Symbol.asyncDispose]() {
      closing.abort()
      const late = (): Error => new Error('left to the janitors of other workers')
      await inTime(Promise.all(kept.values()), CLOSE_MS, late).catch(() => undefined)
    },
  }
}
