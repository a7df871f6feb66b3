/**
 * Connects a worker to its Redis, Postgres, backends and telemetry, and starts to claim executions. Closing
 * goes the opposite way: stop claiming, let executions run, end the rest, disconnect.
 */
import { randomBytes } from 'node:crypto'
import { blobPlaceOf } from '@cofferdam/config'
import { newWorkerId, type Backend, type WorkerId } from '@cofferdam/contract'
import { compileRules, redactText, type BackendReport } from '@cofferdam/executor'
import {
  announceVersion,
  cellOf,
  connectRedis,
  createConsumer,
  createProducer,
  createTraceShelf,
} from '@cofferdam/queue'
import { createStore, SCHEMA_VERSION } from '@cofferdam/store'
import {
  createLogger,
  createMetricsServer,
  startTelemetry,
  type Telemetry,
  type TelemetryOptions,
} from '@cofferdam/telemetry'
import type { Redis } from 'ioredis'
import workspace from '../package.json' with { type: 'json' }
import type { WorkerConfig } from './config.ts'
import { handleExecution } from './handle-execution.ts'
import { keepFleet } from './keep-fleet.ts'
import { openBackends } from './open-backends.ts'
import { createOffers, publishBackends } from './publish-backends.ts'
import { storeOutbox } from './record-attempt.ts'
import { openStoreGate, type StoreGate } from './store-gate.ts'
import { composeDeps } from './worker-deps.ts'

/** Background work under way takes milliseconds when a worker closes, if Redis answers. */
const CLOSE_MS = 5000

export interface RunningWorker {
  readonly workerId: WorkerId
  /** Results of the backends' last probes. */
  readonly backends: readonly BackendReport[]
  /** Drains: running executions get `drainMs`, the rest is requeued or ended. Idempotent. */
  close(): Promise<void>
}

export interface WorkerOptions {
  /** Shared by several apps in one process. Without it the worker starts its own. */
  telemetry?: Telemetry
  /** Wraps the processing of each execution: tests stop a worker at a chosen point (tests/faults). */
  around?: (handle: typeof handleExecution) => typeof handleExecution
}

/** Starts a worker. Waits until Redis answers, and claims nothing before Postgres answers. */
export async function runWorker(config: WorkerConfig, options: WorkerOptions = {}): Promise<RunningWorker> {
  await using owned = new AsyncDisposableStack()
  const logger = createLogger({
    service: 'cofferdam-worker',
    level: config.logLevel,
    redact: redactKnownSecrets,
  })
  const connections = openConnections(config, owned)
  const { redis, subscriber, control } = connections
  const workerId = newWorkerId(await readFleetId(redis))
  const telemetry =
    options.telemetry ??
    owned.use(await startTelemetry({ ...telemetryOptions(config), instance: workerId, logger }))
  const onError = (error: unknown) =>
    logger.error({ err: error, worker_id: workerId }, 'background work failed')
  const store = owned.use(
    await createStore({
      databaseUrl: config.databaseUrl,
      ...blobPlaceOf(config),
      outputKeys: config.outputKeys ?? [],
      logger,
      onBatch: (batch) => telemetry.instruments.auditBatch(batch),
    }),
  )
  const common = { config, workerId, redis, caps: connections.caps, store, telemetry, logger, onError }
  const opened = await openBackends({ ...common, control, rates: connections.rates }, owned)
  const { backends, executor, starts, headroom, sessions } = opened
  const shelf = owned.use(createTraceShelf({ redis: control, onError }))
  owned.defer(telemetry.onTrace((trace) => shelf.offer(trace)))
  const producer = owned.use(createProducer({ redis: control, subscriber }))
  const published = owned.use(
    await publishBackends({ redis: control, executor, backends, starts, workerId, onError }),
  )
  const { version } = workspace
  owned.use(
    announceVersion({
      redis: control,
      role: 'worker',
      id: workerId,
      version,
      schema: SCHEMA_VERSION,
      group: config.group,
      onError,
    }),
  )
  const offersOf = createOffers(executor)
  const offers = () => offersOf(published.reports)
  const deps = composeDeps({ ...common, opened, offers, producer }, owned)
  const handle = options.around?.(handleExecution) ?? handleExecution
  const consumer = createConsumer({
    redis,
    subscriber,
    workerId,
    slots: config.slots,
    lanes: config.lanes,
    ...(config.routineSlots === undefined ? {} : { routineSlots: config.routineSlots }),
    room: headroom,
    offers,
    // If `interrupted` is set, the attempt of a dead worker is only ended, which needs no memory.
    process: (taken) =>
      taken.interrupted === null ? headroom.reserve(taken, () => handle(taken, deps)) : handle(taken, deps),
    onOutbox: (records) => storeOutbox(records, deps),
    logger,
  })
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
        // Sends the first heartbeat, so it comes before any sandbox: other workers destroy the sandboxes of a
        // worker without heartbeats.
        consumer.start()
        prewarmPreferred(backends, published.reports)
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
        // Commands wait forever for a partitioned Redis. Disconnecting makes them fail.
        const disconnect = setTimeout(() => {
          for (const connection of Object.values(connections)) connection.disconnect()
        }, CLOSE_MS)
        try {
          await resources.disposeAsync()
        } finally {
          clearTimeout(disconnect)
        }
      })()
      return closing
    },
  }
}

/**
 * Opens the connections of a worker. `owned` closes them. `redis` waits for a restarting Redis, so that a
 * short outage refuses no running execution. `control` fails fast: background work is repeated anyway and
 * must not delay the end of a worker. `caps` (like `redis`) and `rates` (like `control`) lead to the Redis of
 * admission.
 */
function openConnections({ redisUrl, admissionRedisUrl, cell }: WorkerConfig, owned: AsyncDisposableStack) {
  const connect = (url: string, role: 'worker' | 'producer' | 'subscriber'): Redis =>
    owned.adopt(connectRedis(url, role, cell), (connection) => connection.disconnect())
  const redis = connect(redisUrl, 'worker')
  const subscriber = connect(redisUrl, 'subscriber')
  const control = connect(redisUrl, 'producer')
  if (admissionRedisUrl === undefined) return { redis, subscriber, control, caps: redis, rates: control }
  const [caps, rates] = [connect(admissionRedisUrl, 'worker'), connect(admissionRedisUrl, 'producer')]
  return { redis, subscriber, control, caps, rates }
}

/** The backend that `auto` uses fills its warm pool now, the others at their first execution. */
function prewarmPreferred(backends: ReadonlyMap<string, Backend>, reports: readonly BackendReport[]): void {
  const preferred = reports.find(({ probe }) => probe.ok)
  if (preferred !== undefined) backends.get(preferred.name)?.prewarm?.()
}

/** The random ID of the fleet, 12 hex digits, part of worker IDs. The first worker of a Redis creates it. */
async function readFleetId(redis: Redis): Promise<string> {
  const key = `${cellOf(redis).tag}:fleet`
  await redis.set(key, randomBytes(6).toString('hex'), 'NX')
  const id = await redis.get(key)
  if (id === null) throw new Error(`Redis lost ${key} while it was read`)
  return id
}

const SECRET_RULES = compileRules([], {})

/** Removes secrets of known forms from logs and spans. */
const redactKnownSecrets = (text: string): string => redactText(SECRET_RULES, text).text

function telemetryOptions(config: WorkerConfig): Omit<TelemetryOptions, 'instance' | 'logger'> {
  return {
    service: 'cofferdam-worker',
    version: workspace.version,
    ...(config.otlpEndpoint === undefined ? {} : { otlpEndpoint: config.otlpEndpoint }),
    redact: redactKnownSecrets,
    ...(config.traceSampleRatio === undefined ? {} : { sampleRatio: config.traceSampleRatio }),
    slowMs: config.traceSlowMs,
    // Keeps no spans in memory: the API reads the spans of workers from Redis (createTraceShelf).
    recentSpans: 0,
  }
}

/** Five missed heartbeats. Redis is then unreachable, and the worker claims nothing. */
const BEAT_LATE_MS = 5000

function whyNotReady(beatAgeMs: number | null, isDraining: boolean, gate: StoreGate | null): string | null {
  if (isDraining) return 'draining'
  if (gate !== null && gate.closedBy !== null) return gate.closedBy
  if (beatAgeMs === null) return 'no heartbeat yet'
  return beatAgeMs > BEAT_LATE_MS ? `Redis took the last heartbeat ${Math.round(beatAgeMs)} ms ago` : null
}
