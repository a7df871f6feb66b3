/**
 * A first-in, first-out queue of callers. Each of them holds an execution slot of the worker, which bounds
 * it.
 */
export interface Line<T> {
  readonly length: number
  /**
   * Joins the queue and resolves with what `serve` gives. Rejects with the signal's reason and leaves the
   * queue then.
   */
  join(signal: AbortSignal): Promise<T>
  /** Gives it to whoever has waited longest; false when nobody waits. */
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
