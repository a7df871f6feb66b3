/**
 * Connects a dispatcher to Redis and to its environments. Closing drains: it stops polling at once, and stops
 * each work item when its session's turn is over.
 */
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { setTimeout as after } from 'node:timers/promises'
import { createWarmPool } from '@cofferdam/backend-kubernetes/warm-pool'
import { createQueueClient } from '@cofferdam/client/queue'
import { compileRules, redactText } from '@cofferdam/executor'
import { connectRedis } from '@cofferdam/queue'
import {
  createLogger,
  createMetricsServer,
  startTelemetry,
  type Telemetry,
  type Logger,
} from '@cofferdam/telemetry'
import { readKey } from './control-plane.ts'
import { createReadDepth, type ReadDepth } from './scale/read-depth.ts'
import { createScaler, type Scaler } from './scale/scaler.ts'
import workspace from '../package.json' with { type: 'json' }
import type { DispatcherConfig, EnvironmentConfig } from './config.ts'
import { openOwnFolder } from './own-folder.ts'
import { pollEnvironment, type PolledEnvironment } from './poll-environment.ts'
import type { Serving } from './serve-item.ts'

export interface RunningDispatcher {
  readonly environments: readonly PolledEnvironment[]
  /**
   * Drains for `drainMs` at most. Sessions whose turn goes on after that are left to the next dispatcher, so
   * the process has to exit then. Idempotent.
   */
  close(): Promise<void>
}

export interface DispatcherOptions {
  /** Shared by several apps in one process. Without it the dispatcher starts its own. */
  telemetry?: Telemetry
}

/** How often a drain asks whether a session's turn is over. */
const IDLE_LOOK_MS = 1000
/** How long sessions may still save outputs after a drain ends. Without a worker, saving takes minutes. */
const KEEP_MS = 30_000

/** Starts to poll. Redis may start later. Rejects when the port of the metrics is taken. */
export async function runDispatcher(
  config: DispatcherConfig,
  options: DispatcherOptions = {},
): Promise<RunningDispatcher> {
  await using owned = new AsyncDisposableStack()
  const logger = createLogger({
    service: 'cofferdam-dispatcher',
    level: config.logLevel,
    redact: redactKnownSecrets,
  })
  const workerId = `cofferdam-${hostname()}-${randomBytes(4).toString('hex')}`
  const telemetry =
    options.telemetry ??
    owned.use(
      await startTelemetry({
        service: 'cofferdam-dispatcher',
        version: workspace.version,
        instance: workerId,
        redact: redactKnownSecrets,
        slowMs: config.traceSlowMs,
        logger,
        ...(config.traceSampleRatio === undefined ? {} : { sampleRatio: config.traceSampleRatio }),
        ...(config.otlpEndpoint === undefined ? {} : { otlpEndpoint: config.otlpEndpoint }),
      }),
    )
  // While Redis is away, a session that begins waits, at most until the lease of its item lapses.
  const redis = owned.adopt(connectRedis(config.redisUrl, 'worker', config.cell), (one) => one.disconnect())
  const client = owned.use(createQueueClient({ redisUrl: config.redisUrl, cell: config.cell }))
  const folder = owned.use(await openOwnFolder())
  const polling = new AbortController()
  owned.defer(() => polling.abort())
  const scaler = await openScaler(config, logger)
  if (scaler !== null) {
    owned.use(scaler)
    owned.defer(telemetry.instruments.observeDispatcher(() => scaler.readings()))
  }
  const environments = config.environments.map((environment) =>
    pollEnvironment({
      client,
      redis,
      environment,
      workerId,
      logger,
      folder: folder.path,
      signal: polling.signal,
      scaler: environment.pool === undefined ? null : scaler,
    }),
  )
  if (config.metricsPort !== undefined)
    owned.use(
      await createMetricsServer({
        host: config.metricsHost,
        port: config.metricsPort,
        metrics: (accept) => telemetry.prometheus(accept),
        notReady: () => whyNotReady(environments, polling.signal),
      }),
    )
  const resources = owned.move()
  let closing: Promise<void> | undefined
  return {
    environments,
    close() {
      closing ??= (async () => {
        polling.abort()
        await Promise.all(environments.map(({ ended }) => ended))
        const isDrained = await drain(
          environments.flatMap(({ serving }) => [...serving]),
          config.drainMs,
        )
        // After an incomplete drain the connections stay open. Without them, a running call would be answered
        // with an error.
        if (isDrained) await resources.disposeAsync()
        else await Promise.all([telemetry.forceFlush(), folder[Symbol.asyncDispose]()])
      })()
      return closing
    },
  }
}

/** If one environment cannot be polled, the others go on, but the operator must know. */
function whyNotReady(environments: readonly PolledEnvironment[], polling: AbortSignal): string | null {
  if (polling.aborted) return 'draining'
  const failed = environments.find(({ failure }) => failure !== null)
  return failed === undefined ? null : `environment ${failed.id}: ${failed.failure}`
}

/**
 * Stops each item once its session's turn is over. After `ms`, the others are left running: to stop an item
 * in the middle of a turn would leave its session waiting for ever. Returns whether all have ended.
 */
async function drain(serving: readonly Serving[], ms: number): Promise<boolean> {
  const timeUp = AbortSignal.timeout(ms)
  const drained = Promise.all(
    serving.map(async (one) => {
      const ended = one.ended.then(() => true)
      while (!(await one.isIdle())) {
        if (timeUp.aborted) {
          await one.keep()
          return false
        }
        if (await Promise.race([ended, pause(timeUp)])) return true
      }
      one.stop()
      return await ended
    }),
  )
  const isInTime = new AbortController()
  const late = after(ms + KEEP_MS, [false], { signal: isInTime.signal }).catch(() => [false])
  const all = await Promise.race([drained, late])
  isInTime.abort()
  return all.every(Boolean)
}

const pause = (signal: AbortSignal): Promise<false> =>
  after(IDLE_LOOK_MS, false as const, { signal }).catch(() => false as const)

/**
 * Only the rules for secrets of known forms, because no tenant is known here. Each tenant's own rules are
 * applied to the results of its executions.
 */
const rules = compileRules([], {})
const redactKnownSecrets = (text: string): string => redactText(rules, text).text

/**
 * Creates the scaler, which keeps spare sandboxes. Null if no environment has a pool. Rejects if a key file
 * has no key.
 */
async function openScaler(
  { environments, pools }: Pick<DispatcherConfig, 'environments' | 'pools'>,
  logger: Logger,
): Promise<Scaler | null> {
  const scaled = environments.flatMap((one) => (one.pool === undefined ? [] : { ...one, pool: one.pool }))
  if (scaled.length === 0) return null
  return createScaler({
    environments: await Promise.all(
      scaled.map(async (one) => ({ id: one.id, pool: one.pool, readDepth: await depthReader(one) })),
    ),
    pools: pools.map(({ name, spare, kubernetes }) => ({
      name,
      settings: spare,
      warmPool: kubernetes === undefined ? null : createWarmPool(kubernetes),
    })),
    logger,
  })
}

async function depthReader(environment: EnvironmentConfig): Promise<ReadDepth | null> {
  if (environment.api_key_file === undefined) return null
  const { Anthropic } = await import('@anthropic-ai/sdk')
  const apiKey = await readKey(environment.api_key_file)
  return createReadDepth(
    new Anthropic({
      baseURL: environment.base_url,
      apiKey,
      authToken: null,
      defaultHeaders: environment.headers,
      logLevel: 'off',
    }),
  )
}
