/** Lets calls in flight end after an abort: knowing how they ended can save the session. */

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
