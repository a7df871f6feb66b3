/** Runs something once nothing happened for a while. */
import { AsyncLocalStorage } from 'node:async_hooks'

export interface Quiet extends Disposable {
  /** Something happened: waits from now on again. */
  postpone(): void
}

/**
 * `run` reports its own failures. It is not started while a run goes on. It is no part of what called
 * `postpone`: its spans must not be children of a tool call's.
 */
export function whenQuiet(ms: number, run: () => Promise<void>): Quiet {
  const asNow = AsyncLocalStorage.snapshot()
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> = Promise.resolve()
  return {
    postpone() {
      clearTimeout(timer)
      timer = setTimeout(() => {
        running = running.then(() => asNow(run)).catch(() => undefined)
      }, ms)
    },
    [Symbol.dispose]: () => clearTimeout(timer),
  }
}
