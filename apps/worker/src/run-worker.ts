/**
 * Connects a worker to its Redis, Postgres, backends and telemetry, starts to take executions, and takes all of it down
 * again in the opposite order: stop taking, let run, end the rest, close.
 */
import { join } from 'node:path'
import {
  createAdmission,
  createCapsWriter,
  createRateGate,
  createSandboxSwitch,
  LEASE_MS,
} from '@cofferdam/admission'
import { createBackends, type BackendDeps } from '@cofferdam/backends'
import { createEgress } from '@cofferdam/egress'
import { newWorkerId, type Backend, type TenantCaps, type WorkerId } from '@cofferdam/contract'
import { createExecutor, createMemoryBudget, type BackendReport } from '@cofferdam/executor'
import { connectRedis, createConsumer, createProducer, createTraceShelf } from '@cofferdam/queue'
import { createSessionRegistry } from '@cofferdam/sessions'
import { createStore } from '@cofferdam/store'
import { createLogger, createMetricsServer, startTelemetry, type Telemetry } from '@cofferdam/telemetry'
import type { WorkerConfig } from './config.ts'
import { carry } from './carry.ts'
import { createCheckPatience } from './check-patience.ts'
import { createCheckpoints } from './checkpoints.ts'
import { provisionedPool, type ProvisionedPool } from './provisioned-pool.ts'
import { createReturnTimes } from './return-times.ts'
import { createWorkspaces } from './workspaces.ts'
import { createMemoryRoom } from './memory-room.ts'
import { readFleetId } from './fleet-id.ts'
import { createInterpreterLookup } from './interpreter-lookup.ts'
import { createLeaseKeeper } from './lease-keeper.ts'
import { createLeftovers } from './leftovers.ts'
import { keepFleet } from './keep-fleet.ts'
import { showSessions } from './show-sessions.ts'
import { prewarmPreferred, warmPlaces } from './warm-places.ts'
import { storeOutbox } from './store-outbox.ts'
import { createPolicyCache } from './policy-cache.ts'
import { publishBackends } from './publish-backends.ts'
import type { WorkerDeps } from './worker-deps.ts'
import { redactKnownSecrets, telemetryOptions } from './worker-telemetry.ts'

/** The store's default (DESIGN §7), for executions whose tenant cannot be read. */
const DEFAULT_RETENTION_DAYS = 30
const MiB = 1_048_576
/** As with slots: half of the memory stays for interactive work. */
const ROUTINE_MEMORY_SHARE = 0.5
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

/** Starts a worker. Rejects when Redis does not answer; Postgres may come later. */
export async function runWorker(config: WorkerConfig, options: WorkerOptions = {}): Promise<RunningWorker> {
  await using owned = new AsyncDisposableStack()
  const logger = createLogger({
    service: 'cofferdam-worker',
    level: config.logLevel,
    redact: redactKnownSecrets,
  })
  const connections: { disconnect(): void }[] = []
  const connect = (role: 'worker' | 'producer' | 'subscriber') => {
    const connection = owned.adopt(connectRedis(config.redisUrl, role), (redis) => redis.disconnect())
    connections.push(connection)
    return connection
  }
  // Waits for a Redis that restarts: an execution in hand is not refused for a blink. Admission gives up by itself.
  const redis = connect('worker')
  const subscriber = connect('subscriber')
  // Fails fast: upkeep is repeated anyway, and must not keep a stopping worker waiting.
  const control = connect('producer')

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
  const memory = createMemoryBudget(config.memoryBudgetMib * MiB)
  const sessions = createSessionRegistry({ redis })
  const shown = owned.use(
    showSessions({ sessions: createSessionRegistry({ redis: control }), self: workerId, onError }),
  )
  const warm = warmPlaces({
    owner: workerId,
    memory,
    config: config.warm,
    instruments: telemetry.instruments,
    onSession: (name, state) => shown.show(name, state),
  })
  const interpreters = createInterpreterLookup({ rows: store.codeInterpreters, actor: workerId })
  const rate = createRateGate({ redis: control })
  const pool = provisionedPool(config.backends, store.sandboxConfig)
  const leftovers = createLeftovers({
    backend: (name) => backends.get(name),
    onGone: (ref) => logger.info({ ref }, 'ended a sandbox that was not proven gone'),
    onError: (error, ref) => logger.warn({ err: error, ref }, 'a sandbox is still not proven gone'),
  })
  const backends: ReadonlyMap<string, Backend> = await createBackends(config.backends, {
    logger,
    onLeft: (ref) => leftovers.add(ref),
    warm,
    sessions,
    interpreters,
    rate,
    ...(pool === null ? {} : { fleetPool: pool }),
    ...identityOf(config),
  })
  for (const backend of backends.values()) owned.use(backend)
  // Disposed before them, whom it asks once more.
  owned.use(leftovers)
  const egress = owned.use(createEgress({ config: config.egress }))
  const executor = createExecutor({
    backends,
    order: [...backends.keys()],
    blobs: store.blobs,
    memory,
    egress,
    log: logger,
    onLeaked: ({ ref, ending }) => leftovers.add(ref, ending),
  })
  const stopObserving = telemetry.instruments.observeMemory(() => ({
    usedBytes: executor.memory.usedBytes,
    limitBytes: executor.memory.totalBytes,
    waiting: executor.memory.waiting,
  }))
  owned.defer(stopObserving)
  const shelf = owned.use(createTraceShelf({ redis: control, onError }))
  owned.defer(telemetry.onTrace((trace) => shelf.offer(trace)))
  const producer = owned.use(createProducer({ redis: control, subscriber }))
  const loadCaps = async (tenantId: string): Promise<TenantCaps | null> =>
    (await store.tenants.get(tenantId))?.caps ?? null
  const admission = createAdmission({
    redis,
    countCharged: (tenantId, atMs, unsettled) => store.chargedCounts(tenantId, atMs, unsettled),
    loadCaps,
    logger,
  })
  const leases = owned.use(
    createLeaseKeeper({
      admission,
      leaseMs: LEASE_MS,
      onLost: (lease) => logger.warn({ lease }, 'a concurrency lease ran out before its renewal'),
      onError,
    }),
  )
  const polyclawSwitch = (of: ProvisionedPool) =>
    createSandboxSwitch({
      redis,
      read: async () => (await store.sandboxConfig.get()).settings,
      allow: (endpoint) => of.allow(endpoint),
      onError,
    })
  const room = createMemoryRoom(executor, config.lanes.length > 1 ? ROUTINE_MEMORY_SHARE : 1)
  const deps: WorkerDeps = {
    workerId,
    admission,
    executor: room.executor,
    backends,
    sessions,
    store,
    policies: createPolicyCache({
      redis,
      store,
      onCaps: createCapsWriter({ admission, producer, loadCaps }),
    }),
    patience: createCheckPatience(redis),
    returnAtMs: createReturnTimes(),
    leases,
    checkpoints: createCheckpoints({ redis, blobs: store.blobs, onError }),
    switches: new Map(pool === null ? [] : [['azure', polyclawSwitch(pool)]]),
    workspaces: createWorkspaces({ redis, store: store.workspaces }),
    metrics: { ended: (record) => telemetry.instruments.ended(record) },
    logger,
    defaultRetentionDays: DEFAULT_RETENTION_DAYS,
    prices: config.prices,
    canEncrypt: store.canEncrypt,
  }
  const carrying = options.around?.(carry) ?? carry
  const consumer = createConsumer({
    redis,
    subscriber,
    workerId,
    slots: config.slots,
    lanes: config.lanes,
    ...(config.routineSlots === undefined ? {} : { routineSlots: config.routineSlots }),
    room,
    process: (taken) => room.carry(taken, () => carrying(taken, deps)),
    onOutbox: (records) => storeOutbox(records, deps),
    logger,
  })
  const published = owned.use(await publishBackends({ redis: control, executor, workerId, onError }))
  prewarmPreferred(backends, published.reports)
  owned.use(keepFleet({ config, workerId, backends, sessions, store, producer, redis, logger, onError }))
  let isDraining = false
  if (config.metricsPort !== undefined)
    owned.use(
      await createMetricsServer({
        host: config.metricsHost,
        port: config.metricsPort,
        metrics: (accept) => telemetry.prometheus(accept),
        notReady: () => whyNotReady(consumer.beatAgeMs, isDraining),
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
  consumer.start()
  logger.info(
    { worker_id: workerId, backends: published.reports.map(({ name, probe }) => `${name}: ${probe.ok}`) },
    'taking executions',
  )

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
        await consumer.drain({ graceMs: config.drainMs })
        // Commands to a Redis that is silent (a partition) wait for ever: cut off, they fail, and closing goes on.
        const silent = setTimeout(() => connections.forEach((each) => each.disconnect()), CLOSE_MS)
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

function whyNotReady(beatAgeMs: number | null, isDraining: boolean): string | null {
  if (isDraining) return 'draining'
  if (beatAgeMs === null) return 'no heartbeat yet'
  return beatAgeMs > BEAT_LATE_MS ? `Redis took the last heartbeat ${Math.round(beatAgeMs)} ms ago` : null
}

/** A managed identity is told by both or not at all. */
function identityOf({
  identityEndpoint: endpoint,
  identityHeader: header,
}: WorkerConfig): Pick<BackendDeps, 'identity'> {
  return endpoint === undefined || header === undefined ? {} : { identity: { endpoint, header } }
}
