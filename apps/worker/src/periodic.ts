/**
 * Repeats background work until it is disposed. Calls `round` every `everyMs`, and at once unless `atStart`
 * is false. A tick during a long round is skipped, so rounds never overlap. Disposing waits for the round
 * under way. `onError` gets what a round throws.
 */
export function repeat(
  round: () => Promise<void>,
  options: { everyMs: number; atStart?: boolean; onError(this: void, error: unknown): void },
): AsyncDisposable {
  let running: Promise<void> | null = null
  const run = (): void => {
    running ??= round()
      .catch(options.onError)
      .finally(() => {
        running = null
      })
  }
  if (options.atStart !== false) run()
  const timer = setInterval(run, options.everyMs)
  timer.unref()
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await running
    },
  }
}
