/** A FIFO queue of callers. It needs no bound, because each caller holds one of the worker's slots. */
export interface Line<T> {
  readonly length: number
  /** Joins and resolves with what `serve` gives. Leaves and rejects with the signal's reason. */
  join(signal: AbortSignal): Promise<T>
  /** Gives `given` to the caller that has waited longest. False if nobody waits. */
  serve(given: T): boolean
}

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
