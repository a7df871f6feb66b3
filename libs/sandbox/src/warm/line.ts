/** Callers who wait for what others give up, in order of arrival. Whoever waits holds a worker's slot, so they are bounded by those. */
export interface Line<T> {
  readonly length: number
  /** Waits for what it is given. Rejects with the signal's reason, and is then no longer in the line. */
  join(signal: AbortSignal): Promise<T>
  /** Gives it to who waits longest; false when nobody does. */
  serve(given: T): boolean
}

/** Creates an empty one. */
export function createLine<T>(): Line<T> {
  const waiting: ((given: T) => void)[] = []
  return {
    get length() {
      return waiting.length
    },
    async join(signal) {
      const { promise, resolve, reject } = Promise.withResolvers<T>()
      const onAbort = (): void => {
        const at = waiting.indexOf(resolve)
        if (at < 0) return
        waiting.splice(at, 1)
        reject(signal.reason)
      }
      waiting.push(resolve)
      signal.addEventListener('abort', onAbort, { once: true })
      return await promise.finally(() => signal.removeEventListener('abort', onAbort))
    },
    serve(given) {
      const first = waiting.shift()
      first?.(given)
      return first !== undefined
    },
  }
}
