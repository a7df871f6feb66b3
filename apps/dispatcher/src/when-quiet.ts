/** Runs something once nothing happened for a while. */
import { AsyncLocalStorage } from 'node:async_hooks'

export interface Quiet extends Disposable {
  /** Something happened: waits from now on again. */
  postpone(): void
}

/**
 * Calls `run` when `ms` have passed since the last `postpone`. Runs never overlap, and `run` reports its own
 * failures. `run` gets the async context in which `whenQuiet` was called, so its spans are not children of
 * the tool call that called `postpone`.
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
