/** Makes partitions ahead and drops expired ones, at start and every hour. Any worker may: both are idempotent. */
import type { Retention } from '@cofferdam/store'

const INTERVAL_MS = 3_600_000

export function keepRetention(deps: {
  retention: Retention
  onError(error: unknown): void
}): AsyncDisposable {
  const round = async () => {
    try {
      await deps.retention.ensurePartitions(Date.now())
      await deps.retention.dropExpired(Date.now())
    } catch (error) {
      deps.onError(error)
    }
  }
  let running = round()
  const timer = setInterval(() => {
    running = round()
  }, INTERVAL_MS)
  timer.unref()
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await running
    },
  }
}
