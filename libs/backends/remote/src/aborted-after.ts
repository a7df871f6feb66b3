/** Patience with a call that is on its way when its attempt is stopped: to know how it ended costs less than what it would leave open. */

/** Aborts `ms` after `signal` does, with its reason. */
export function abortedAfter(signal: AbortSignal, ms: number): { signal: AbortSignal } & Disposable {
  const late = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const onAbort = (): void => {
    timer = setTimeout(() => late.abort(signal.reason), ms)
  }
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  return {
    signal: late.signal,
    [Symbol.dispose]() {
      signal.removeEventListener('abort', onAbort)
      clearTimeout(timer)
    },
  }
}
