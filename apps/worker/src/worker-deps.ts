/** What processing an execution needs: policy, caps, leases, executor, and state that outlives an attempt. */
import { createAdmission, createCapsWriter, LEASE_MS, type Admission } from '@cofferdam/admission'
import type {
  AttemptRecord,
  Backend,
  ExecutionRequest,
  Prices,
  SessionRegistry,
  WorkerId,
} from '@cofferdam/contract'
import type { Executor } from '@cofferdam/executor'
import { lacksOfOtherKinds, type Offer, type Producer } from '@cofferdam/queue'
import type { Store } from '@cofferdam/store'
import type { Logger, Telemetry } from '@cofferdam/telemetry'
import type { Redis } from 'ioredis'
import { createCheckpoints, type Checkpoints } from './checkpoints.ts'
import type { WorkerConfig } from './config.ts'
import { createLeaseKeeper, type LeaseKeeper } from './lease-keeper.ts'
import type { BackendSwitch, OpenBackends } from './open-backends.ts'
import { createPolicyCache, type PolicyCache } from './policy-cache.ts'
import { createCheckGrace, createReturnTimes, type MayRetryCheck } from './requeue.ts'
import { withinSection } from './sandbox-section.ts'
import { createWorkspaces, type Workspaces } from './workspaces.ts'

export interface WorkerDeps {
  workerId: WorkerId
  admission: Admission
  executor: Executor
  backends: ReadonlyMap<string, Backend>
  /** What the backends can run now. */
  offers(this: void): readonly Offer[]
  /** For each other kind of worker in the fleet: what its backends lack to meet a need. */
  lacksOfOthers(this: void, need: string): Promise<string[]>
  /** Sessions that any worker can attach to. */
  sessions: Pick<SessionRegistry, 'claim' | 'find'>
  store: Pick<Store, 'record' | 'findAttempt' | 'blobs'>
  policies: PolicyCache
  mayRetryCheck: MayRetryCheck
  /** When the next execution that waits for a full backend comes back. */
  returnAtMs(this: void, nowMs: number): number
  leases: LeaseKeeper
  checkpoints: Checkpoints
  workspaces: Workspaces
  metrics: { ended(record: AttemptRecord): void }
  logger: Logger
  /** Retention of the audit rows of tenants whose policy cannot be read. */
  defaultRetentionDays: number
  /** Reduces a request to the limits of this worker. */
  within?(this: void, request: ExecutionRequest): ExecutionRequest
  /** What attempts cost, by backend. */
  prices: Prices
  /** The switches that may refuse a backend, by its name. */
  switches: ReadonlyMap<string, BackendSwitch>
  /** Whether a key for encrypted outputs is configured. */
  canEncrypt: boolean
}

/** The store's default. */
const DEFAULT_RETENTION_DAYS = 30

export interface DepsParts {
  config: WorkerConfig
  workerId: WorkerId
  /** Connection of role `worker`. */
  redis: Redis
  /** Like `redis`, for the Redis of admission. */
  caps: Redis
  store: Store
  telemetry: Telemetry
  opened: OpenBackends
  offers: WorkerDeps['offers']
  producer: Producer
  logger: Logger
  onError(this: void, error: unknown): void
}

/** Creates them. `owned` ends the renewal of leases. */
export function composeDeps(parts: DepsParts, owned: AsyncDisposableStack): WorkerDeps {
  const { config, workerId, redis, caps, store, telemetry, opened, offers, producer, logger, onError } = parts
  const load = (tenantId: string) => store.tenants.get(tenantId)
  const admission = createAdmission({
    redis: caps,
    countCharged: (tenantId, atMs, unsettled) => store.chargedCounts(tenantId, atMs, unsettled),
    loadCaps: async (tenantId) => (await load(tenantId))?.caps ?? null,
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
  return {
    workerId,
    admission,
    executor: opened.headroom.executor,
    backends: opened.backends,
    offers,
    lacksOfOthers: (need) => lacksOfOtherKinds(redis, offers(), need),
    sessions: opened.sessions,
    store,
    policies: createPolicyCache({
      redis,
      store,
      onChange: createCapsWriter({ admission, producer, load }),
    }),
    mayRetryCheck: createCheckGrace(redis),
    returnAtMs: createReturnTimes(),
    leases,
    checkpoints: createCheckpoints({ redis, blobs: store.blobs, onError }),
    switches: opened.switches,
    workspaces: createWorkspaces({ redis, store: store.workspaces }),
    metrics: { ended: (record) => telemetry.instruments.ended(record) },
    logger,
    defaultRetentionDays: DEFAULT_RETENTION_DAYS,
    within: (request) => withinSection(request, config.sandbox),
    prices: config.prices,
    canEncrypt: store.canEncrypt,
  }
}
