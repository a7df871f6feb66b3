/** A timer that a signal ends. `node:timers/promises` does not exist in browsers. */

/** Resolves after `ms` milliseconds. Rejects with the reason of a signal that aborts before. */
export function pause(ms: number, ...signals: readonly (AbortSignal | undefined)[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const heard = signals.filter((signal) => signal !== undefined)
    const over = (): void => {
      clearTimeout(timer)
      for (const signal of heard) signal.removeEventListener('abort', onAbort)
    }
    const onAbort = (): void => {
      over()
      reject(heard.find((signal) => signal.aborted)?.reason)
    }
    const timer = setTimeout(() => {
      over()
      resolve()
    }, ms)
    for (const signal of heard) signal.addEventListener('abort', onAbort)
    if (heard.some((signal) => signal.aborted)) onAbort()
  })
}
