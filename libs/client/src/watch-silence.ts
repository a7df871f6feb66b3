/** Ends a call whose connection is dead, although nobody closed it: a cable was pulled, or a laptop slept. */

export interface Watch {
  /** Aborts with the reason of the first followed signal that aborts, or after too long a silence. */
  signal: AbortSignal
  /** Aborts when nothing is heard for `ms` from now on. Null: no limit. */
  limitSilence: (ms: number | null) => void
  /** Ends the watch and aborts `signal`, which gives up the unread rest of the answer. */
  end: () => void
}

/** How often the clocks are read. After a machine wakes up, a dead connection is noticed within this time. */
const LOOK_MS = 5000

/**
 * `AbortSignal.any` would leak here: in Node 20 and 22, each call leaves a record on a followed signal that
 * lives as long as the client.
 */
export function watchOver(followed: readonly (AbortSignal | undefined)[]): Watch {
  const own = new AbortController()
  const onAbort = (): void => own.abort(followed.find((signal) => signal?.aborted === true)?.reason)
  let timer: ReturnType<typeof setTimeout> | undefined
  for (const signal of followed) signal?.addEventListener('abort', onAbort)
  if (followed.some((signal) => signal?.aborted === true)) onAbort()

  function limitSilence(ms: number | null): void {
    clearTimeout(timer)
    if (ms === null) return
    // Read both clocks: the monotonic clock stands still while the machine sleeps, and the wall clock can be
    // set back.
    const [until, untilWall] = [performance.now() + ms, Date.now() + ms]
    const look = (): void => {
      const leftMs = Math.min(until - performance.now(), untilWall - Date.now())
      if (leftMs <= 0) own.abort(new Error(`nothing heard within ${ms} ms`))
      else timer = setTimeout(look, Math.min(leftMs, LOOK_MS))
    }
    look()
  }

  return {
    signal: own.signal,
    limitSilence,
    end() {
      clearTimeout(timer)
      for (const signal of followed) signal?.removeEventListener('abort', onAbort)
      own.abort()
    },
  }
}
