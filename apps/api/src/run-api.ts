/** Connects a server to its Redis, Postgres and telemetry, and closes all of them in reverse order. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { isIPv6 } from 'node:net'
import { createPoolProvisioner } from '@cofferdam/backends'
import { blobPlaceOf } from '@cofferdam/config'
import { announceVersion, LOCK_MS } from '@cofferdam/queue'
import { createStore, SCHEMA_VERSION } from '@cofferdam/store'
import {
  createLogger,
  createMetricsServer,
  type Logger,
  startTelemetry,
  type Telemetry,
} from '@cofferdam/telemetry'
import type { FastifyInstance } from 'fastify'
import type { Redis } from 'ioredis'
import workspace from '../package.json' with { type: 'json' }
import type { ApiConfig } from './config.ts'
import { openCells } from './open-cells.ts'
import { redactSecrets } from './redaction.ts'
import { createApi } from './server.ts'

export interface RunningApi {
  /** `http://host:port`, with the actual port. */
  url: string
  /** Stops listening, lets requests continue for at most `drainMs`, then closes everything. Idempotent. */
  close(): Promise<void>
}

/** What a process that runs more than the API shares with it. The caller keeps ownership. */
export interface Shared {
  telemetry?: Telemetry
  logger?: Logger
}

/**
 * Starts the API. It neither migrates the database nor creates keys; `cofferdam up` does. Redis and
 * Postgres may start later. Until then /readyz and the calls that need them answer 503. Rejects when the
 * port is in use.
 */
export async function runApi(config: ApiConfig, shared: Shared = {}): Promise<RunningApi> {
  await using owned = new AsyncDisposableStack()
  const logger =
    shared.logger ?? createLogger({ service: 'cofferdam-api', level: config.logLevel, redact: redactSecrets })
  const telemetry = shared.telemetry ?? owned.use(await startOwnTelemetry(config, logger))
  const store = owned.use(
    await createStore({
      databaseUrl: config.databaseUrl,
      ...blobPlaceOf(config),
      outputKeys: config.outputKeys ?? [],
      logger,
    }),
  )
  const opened = openCells(config, { store, logger }, owned)
  const { cells, redis, producer, admission } = opened
  owned.defer(
    telemetry.instruments.observeFleet(async () => {
      const [stats, auditFaults, groups] = await Promise.all([
        producer.stats(),
        opened.auditFaults(),
        opened.groupDemand(),
      ])
      return { ...stats, auditFaults, groups, lockMs: LOCK_MS }
    }),
  )
  // If the caller shares its telemetry, something else stores the traces: in `up`, the worker does.
  if (shared.telemetry === undefined) {
    const onError = (error: unknown) => logger.warn({ err: error }, 'the spans of a request were not kept')
    const shelf = opened.keepTraces(onError)
    owned.defer(telemetry.onTrace((trace) => shelf.offer(trace)))
  }
  const api = await createApi({
    producer,
    store,
    admission,
    redis,
    cells,
    publicUrl: config.publicUrl,
    dashboardDir: config.dashboardDir,
    jaegerUrl: config.jaegerUrl,
    oauth: config.oauth,
    metrics: (accept) => telemetry.prometheus(accept),
    logger,
    ...(config.azureProvisioning === undefined
      ? {}
      : { pools: createPoolProvisioner(config.azureProvisioning) }),
  })
  owned.adopt(api, (running) => closeWithin(running, config.drainMs))
  await Promise.allSettled([isReady(redis), store.check()])
  if (config.metricsPort !== undefined)
    owned.use(
      await createMetricsServer({
        host: config.metricsHost,
        port: config.metricsPort,
        metrics: (accept) => telemetry.prometheus(accept),
        notReady: async () => {
          const { statusCode } = await api.inject({ method: 'GET', url: '/readyz' })
          return statusCode === 200 ? null : `/readyz answers ${statusCode}`
        },
      }),
    )
  const url = await listen(api, config)
  owned.use(
    announceVersion({
      redis,
      role: 'api',
      id: `api_${randomUUID().replaceAll('-', '')}`,
      version: workspace.version,
      schema: SCHEMA_VERSION,
      onError: (error) => logger.warn({ err: error }, 'the version of this process was not announced'),
    }),
  )

  const running = owned.move()
  let closing: Promise<void> | null = null
  return {
    url,
    close: () => (closing ??= running.disposeAsync()),
  }
}

function startOwnTelemetry(config: ApiConfig, logger: Logger): Promise<Telemetry> {
  return startTelemetry({
    service: 'cofferdam-api',
    version: workspace.version,
    redact: redactSecrets,
    logger,
    ...(config.traceSampleRatio === undefined ? {} : { sampleRatio: config.traceSampleRatio }),
    slowMs: config.traceSlowMs,
    ...(config.otlpEndpoint === undefined ? {} : { otlpEndpoint: config.otlpEndpoint }),
  })
}

/** Waits for the connection, so that the first request need not. Rejects after 2 s. */
async function isReady(redis: Redis): Promise<void> {
  if (redis.status !== 'ready') await once(redis, 'ready', { signal: AbortSignal.timeout(2000) })
}

async function listen(api: FastifyInstance, { host, port }: ApiConfig): Promise<string> {
  await api.listen({ host, port })
  const address = api.server.address()
  const taken = typeof address === 'object' && address !== null ? address.port : port
  return `http://${isIPv6(host) ? `[${host}]` : host}:${taken}`
}

/** Closes the server. After `drainMs`, closes the connections of requests that still run. */
async function closeWithin(api: FastifyInstance, drainMs: number): Promise<void> {
  const deadline = setTimeout(() => api.server.closeAllConnections(), drainMs)
  try {
    await api.close()
  } finally {
    clearTimeout(deadline)
  }
}
