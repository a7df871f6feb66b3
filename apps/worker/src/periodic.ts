/** Background work of a worker that is repeated until the worker closes. */

/**
 * Calls `round` every `everyMs`, and at once unless `atStart` is false. Rounds can overlap when one takes
 * longer than `everyMs`. Disposing waits for the last round. `onError` gets what a round throws.
 */
export function repeat(
  round: () => Promise<void>,
  {
    everyMs,
    atStart = true,
    onError,
  }: { everyMs: number; atStart?: boolean; onError(this: void, error: unknown): void },
): AsyncDisposable {
  const run = (): Promise<void> => round().catch(onError)
  let running = atStart ? run() : Promise.resolve()
  const timer = setInterval(() => {
    running = run()
  }, everyMs)
  timer.unref()
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await running
    },
  }
}
