/**
 * Tells the fleet which backends work on this worker: one field of `{cofferdam}:backends`, renewed while the worker
 * lives, read by GET /v1/backends and `cofferdam doctor`. Readers drop fields older than STALE_AFTER_MS.
 */
import type { WorkerId } from '@cofferdam/contract'
import type { BackendReport, Executor } from '@cofferdam/executor'
import type { Redis } from 'ioredis'

const KEY = '{cofferdam}:backends'
const INTERVAL_MS = 20_000
/** Three missed renewals. */
const STALE_AFTER_MS = 3 * INTERVAL_MS

export interface BackendsPublisher extends AsyncDisposable {
  /** What the last probes said. */
  readonly reports: readonly BackendReport[]
}

/** Probes, publishes, and goes on doing so until disposed. */
export async function publishBackends(deps: {
  redis: Redis
  executor: Executor
  workerId: WorkerId
  onError(error: unknown): void
}): Promise<BackendsPublisher> {
  let reports: BackendReport[] = []
  const publish = async () => {
    try {
      reports = await deps.executor.probeAll(AbortSignal.timeout(15_000))
      await deps.redis.hset(KEY, deps.workerId, JSON.stringify({ at_ms: Date.now(), backends: reports }))
      await forgetStale(deps.redis)
    } catch (error) {
      deps.onError(error)
    }
  }
  await publish()
  let round: Promise<void> = Promise.resolve()
  const timer = setInterval(() => {
    round = publish()
  }, INTERVAL_MS)
  timer.unref()
  return {
    get reports() {
      return reports
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await round
      await deps.redis.hdel(KEY, deps.workerId).catch((error: unknown) => deps.onError(error))
    },
  }
}

async function forgetStale(redis: Redis): Promise<void> {
  const all = await redis.hgetall(KEY)
  const stale = Object.entries(all)
    .filter(([, json]) => Date.now() - (JSON.parse(json) as { at_ms: number }).at_ms > STALE_AFTER_MS)
    .map(([worker]) => worker)
  if (stale.length > 0) await redis.hdel(KEY, ...stale)
}
