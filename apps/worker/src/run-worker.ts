/**
 * Connects a worker to its Redis, Postgres, backends and telemetry, starts to take executions, and takes all of it down
 * again in the opposite order: stop taking, let run, end the rest, close.
 */
import { join } from 'node:path'
import { newWorkerId, type WorkerId } from '@cofferdam/contract'
import type { BackendReport } from '@cofferdam/executor'
import { createConsumer, createProducer, createTraceShelf } from '@cofferdam/queue'
import { createStore } from '@cofferdam/store'
import { createLogger, createMetricsServer, startTelemetry, type Telemetry } from '@cofferdam/telemetry'
import { carry } from './carry.ts'
import { composeDeps } from './compose-deps.ts'
import type { WorkerConfig } from './config.ts'
import { readFleetId } from './fleet-id.ts'
import { keepFleet } from './keep-fleet.ts'
import { openPlaces } from './open-places.ts'
import { publishBackends } from './publish-backends.ts'
import { createOffers } from './route.ts'
import { openStoreGate, type StoreGate } from './store-gate.ts'
import { storeOutbox } from './store-outbox.ts'
import { prewarmPreferred } from './warm-places.ts'
import { openConnections } from './worker-connections.ts'
import { redactKnownSecrets, telemetryOptions } from './worker-telemetry.ts'

/** Upkeep that is under way when a worker closes takes milliseconds where Redis answers. */
const CLOSE_MS = 5000

export interface RunningWorker {
  readonly workerId: WorkerId
  /** What the backends' last probes said. */
  readonly backends: readonly BackendReport[]
  /** Drains: running executions get `drainMs`, the rest is handed back or ended. Idempotent; leaves nothing behind. */
  close(): Promise<void>
}

export interface WorkerOptions {
  /** Shared by several apps in one process; the worker starts its own without it. */
  telemetry?: Telemetry
  /** Wraps what carries each execution. For a worker that is to stop at a chosen point of the way (tests/faults). */
  around?: (carrying: typeof carry) => typeof carry
}

/**
 * Starts a worker. Rejects when Redis does not answer; Postgres may come later, and nothing is taken before.
 */
export async function runWorker(config: WorkerConfig, options: WorkerOptions = {}): Promise<RunningWorker> {
  await using owned = new AsyncDisposableStack()
  const logger = createLogger({
    service: 'cofferdam-worker',
    level: config.logLevel,
    redact: redactKnownSecrets,
  })
  const { redis, subscriber, control, cut } = openConnections(config.redisUrl, owned)
  const workerId = newWorkerId(await readFleetId(redis))
  const telemetry =
    options.telemetry ?? owned.use(await startTelemetry(telemetryOptions(config, workerId, logger)))
  const onError = (error: unknown) =>
    logger.error({ err: error, worker_id: workerId }, 'background work failed')
  const store = owned.use(
    await createStore({
      databaseUrl: config.databaseUrl,
      blobDir: join(config.dataDir, 'blobs'),
      outputKeys: config.outputKeys ?? [],
      logger,
      onBatch: (batch) => telemetry.instruments.auditBatch(batch),
    }),
  )
  const common = { config, workerId, redis, store, telemetry, logger, onError }
  const places = await openPlaces({ ...common, control }, owned)
  const { backends, executor, room, sessions } = places
  const shelf = owned.use(createTraceShelf({ redis: control, onError }))
  owned.defer(telemetry.onTrace((trace) => shelf.offer(trace)))
  const producer = owned.use(createProducer({ redis: control, subscriber }))
  const published = owned.use(await publishBackends({ redis: control, executor, workerId, onError }))
  const offersOf = createOffers(executor)
  const offers = () => offersOf(published.reports)
  const deps = composeDeps({ ...common, places, offers, producer }, owned)
  const carrying = options.around?.(carry) ?? carry
  const consumer = createConsumer({
    redis,
    subscriber,
    workerId,
    slots: config.slots,
    lanes: config.lanes,
    ...(config.routineSlots === undefined ? {} : { routineSlots: config.routineSlots }),
    room,
    offers,
    // Ending what a dead worker had begun takes no memory.
    process: (taken) =>
      taken.interrupted === null ? room.carry(taken, () => carrying(taken, deps)) : carrying(taken, deps),
    onOutbox: (records) => storeOutbox(records, deps),
    logger,
  })
  prewarmPreferred(backends, published.reports)
  owned.use(keepFleet({ ...common, backends, sessions, producer }))
  let isDraining = false
  let storeGate: StoreGate | null = null
  if (config.metricsPort !== undefined)
    owned.use(
      await createMetricsServer({
        host: config.metricsHost,
        port: config.metricsPort,
        metrics: (accept) => telemetry.prometheus(accept),
        notReady: () => whyNotReady(consumer.beatAgeMs, isDraining, storeGate),
      }),
    )
  owned.defer(
    telemetry.instruments.observeWorker(() => ({
      busy: consumer.running,
      total: config.slots,
      beatAgeMs: consumer.beatAgeMs,
    })),
  )
  owned.use(consumer)
  const gate = owned.use(
    await openStoreGate({
      store,
      logger,
      onOpen() {
        consumer.start()
        const found = published.reports.map(({ name, probe }) => `${name}: ${probe.ok}`)
        logger.info({ worker_id: workerId, backends: found }, 'taking executions')
      },
    }),
  )
  storeGate = gate

  const resources = owned.move()
  let closing: Promise<void> | undefined
  return {
    workerId,
    get backends() {
      return published.reports
    },
    close() {
      closing ??= (async () => {
        isDraining = true
        await gate[Symbol.asyncDispose]()
        await consumer.drain({ graceMs: config.drainMs })
        // Commands to a Redis that is silent (a partition) wait for ever: cut off, they fail, and closing goes on.
        const silent = setTimeout(cut, CLOSE_MS)
        try {
          await resources.disposeAsync()
        } finally {
          clearTimeout(silent)
        }
      })()
      return closing
    },
  }
}

/** A worker that beats takes executions; one that Redis does not hear takes none. Five beats are missed by then. */
const BEAT_LATE_MS = 5000

function whyNotReady(beatAgeMs: number | null, isDraining: boolean, gate: StoreGate | null): string | null {
  if (isDraining) return 'draining'
  if (gate !== null && gate.closedBy !== null) return gate.closedBy
  if (beatAgeMs === null) return 'no heartbeat yet'
  return beatAgeMs > BEAT_LATE_MS ? `Redis took the last heartbeat ${Math.round(beatAgeMs)} ms ago` : null
}
