/**
 * Waits that end with a signal or after a time. The work itself continues, and whoever started it must
 * dispose of its result.
 */
/** Settles like `work`, or rejects with the reason of `signal`. Ignores a later rejection of `work`. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason)
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
    const over = (): void => signal.removeEventListener('abort', onAbort)
    settle(work, over, resolve, reject)
  })
}

/** Settles like `work`, or rejects with the error of `late` after `ms`. Ignores a later rejection. */
export function inTime<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    let judging: NodeJS.Immediate | undefined
    const timer = setTimeout(() => {
      // Let the event loop read what has arrived before this rejects. If the process itself was paused, a
      // passed deadline does not prove that the work is late.
      judging = setImmediate(() => reject(late()))
    }, ms)
    const over = (): void => {
      clearTimeout(timer)
      clearImmediate(judging)
    }
    settle(work, over, resolve, reject)
  })
}

/** Used several times per execution. Promise.race would cost three more promises. */
function settle<T>(
  work: Promise<T>,
  over: () => void,
  resolve: (value: T) => void,
  reject: (error: unknown) => void,
): void {
  work.then(
    (value) => {
      over()
      resolve(value)
    },
    (error: unknown) => {
      over()
      reject(error)
    },
  )
}
