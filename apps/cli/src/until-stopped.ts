/** Resolves when the signal aborts. */
export function untilStopped(stop: AbortSignal): Promise<void> {
  if (stop.aborted) return Promise.resolve()
  const { promise, resolve } = Promise.withResolvers<void>()
  stop.addEventListener('abort', () => resolve(), { once: true })
  return promise
}
