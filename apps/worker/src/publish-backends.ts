/**
 * Publishes which backends work on this worker, as one field of a hash in the worker's cell (`backends` of
 * the queue's keys). The worker renews the field while it lives. `GET /v1/backends` and `cofferdam doctor`
 * ignore fields older than STALE_AFTER_MS.
 */
import type { Backend, WorkerId } from '@cofferdam/contract'
import { keysOf, offerOf, type Offer } from '@cofferdam/queue'
import type { BackendReport, Executor } from '@cofferdam/executor'
import type { Redis } from 'ioredis'
import { repeat } from './periodic.ts'
import type { StartCounts, WarmCounts } from './warm-counts.ts'

const MiB = 1_048_576
const INTERVAL_MS = 20_000
/** Three missed renewals. */
const STALE_AFTER_MS = 3 * INTERVAL_MS

export interface BackendsPublisher extends AsyncDisposable {
  /** Results of the last probes. */
  readonly reports: readonly BackendReport[]
}

/** Probes and publishes now, and every 20 s until disposed. */
export async function publishBackends(deps: {
  redis: Redis
  executor: Pick<Executor, 'probeAll'>
  backends: ReadonlyMap<string, Pick<Backend, 'idle'>>
  starts: Pick<WarmCounts, 'of'>
  workerId: WorkerId
  onError(this: void, error: unknown): void
}): Promise<BackendsPublisher> {
  const { redis, executor, backends, starts, workerId, onError } = deps
  let reports: BackendReport[] = []
  const publish = async () => {
    reports = await executor.probeAll(AbortSignal.timeout(15_000))
    const told = reports.map((report) => ({
      ...report,
      pool: poolOf(backends.get(report.name)?.idle, starts.of(report.name)),
    }))
    await redis.hset(keysOf(redis).backends, workerId, JSON.stringify({ at_ms: Date.now(), backends: told }))
    await forgetStale(redis)
  }
  await publish().catch(onError)
  const rounds = repeat(publish, { everyMs: INTERVAL_MS, atStart: false, onError })
  return {
    get reports() {
      return reports
    },
    async [Symbol.asyncDispose]() {
      await rounds[Symbol.asyncDispose]()
      await redis.hdel(keysOf(redis).backends, workerId).catch(onError)
    },
  }
}

/** Null for a backend without a pool. */
function poolOf(idle: number | undefined, starts: StartCounts | null) {
  return idle === undefined ? null : { idle, ...(starts ?? { taken_warm: 0, taken_cold: 0, warm_failed: 0 }) }
}

async function forgetStale(redis: Redis): Promise<void> {
  const all = await redis.hgetall(keysOf(redis).backends)
  const stale = Object.entries(all)
    .filter(([, json]) => Date.now() - (JSON.parse(json) as { at_ms: number }).at_ms > STALE_AFTER_MS)
    .map(([worker]) => worker)
  if (stale.length > 0) await redis.hdel(keysOf(redis).backends, ...stale)
}

/**
 * Turns reports into offers: one for each backend whose last probe succeeded and whose circuit breaker is not
 * open. The queue routes executions by these offers. Returns the same array until one of these facts changes.
 */
export function createOffers({
  memory,
  circuit,
}: Pick<Executor, 'memory' | 'circuit'>): (reports: readonly BackendReport[]) => readonly Offer[] {
  let usable: readonly BackendReport[] = []
  let offers: readonly Offer[] = []
  return (reports) => {
    const now = reports.filter(({ name, probe }) => probe.ok && circuit(name) !== 'open')
    if (now.length !== usable.length || now.some((report, at) => report !== usable[at])) {
      usable = now
      offers = now.map((report) => offerOf(report, memory.totalBytes / MiB))
    }
    return offers
  }
}
