/** Runs something once nothing happened for a while. */

export interface Quiet extends Disposable {
  /** Something happened: waits from now on again. */
  postpone(): void
}

/** `run` reports its own failures. It is not started while a run goes on. */
export function whenQuiet(ms: number, run: () => Promise<void>): Quiet {
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> = Promise.resolve()
  return {
    postpone() {
      clearTimeout(timer)
      timer = setTimeout(() => {
        running = running.then(run).catch(() => undefined)
      }, ms)
    },
    [Symbol.dispose]: () => clearTimeout(timer),
  }
}
