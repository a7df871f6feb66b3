/** Puts together what carrying an execution needs (worker-deps.ts): policy, caps, leases, and what stays between attempts. */
import { createAdmission, createCapsWriter, LEASE_MS } from '@cofferdam/admission'
import type { WorkerId } from '@cofferdam/contract'
import type { Producer } from '@cofferdam/queue'
import type { Store } from '@cofferdam/store'
import type { Logger, Telemetry } from '@cofferdam/telemetry'
import type { Redis } from 'ioredis'
import { createCheckPatience } from './check-patience.ts'
import { createCheckpoints } from './checkpoints.ts'
import type { WorkerConfig } from './config.ts'
import { createLeaseKeeper } from './lease-keeper.ts'
import type { Places } from './open-places.ts'
import { createPolicyCache } from './policy-cache.ts'
import { createReturnTimes } from './return-times.ts'
import { withinSection } from './sandbox-section.ts'
import type { WorkerDeps } from './worker-deps.ts'
import { createWorkspaces } from './workspaces.ts'

/** The store's default (DESIGN §7), for executions whose tenant cannot be read. */
const DEFAULT_RETENTION_DAYS = 30

export interface DepsParts {
  config: WorkerConfig
  workerId: WorkerId
  /** Connection of role `worker`. */
  redis: Redis
  store: Store
  telemetry: Telemetry
  places: Places
  /** What its backends can run now. */
  offers: WorkerDeps['offers']
  producer: Producer
  logger: Logger
  onError(this: void, error: unknown): void
}

/** Composes them; `owned` ends the renewal of leases. */
export function composeDeps(parts: DepsParts, owned: AsyncDisposableStack): WorkerDeps {
  const { config, workerId, redis, store, telemetry, places, producer, logger, onError } = parts
  const load = (tenantId: string) => store.tenants.get(tenantId)
  const admission = createAdmission({
    redis,
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
    executor: places.room.executor,
    backends: places.backends,
    offers: parts.offers,
    sessions: places.sessions,
    store,
    policies: createPolicyCache({
      redis,
      store,
      onChange: createCapsWriter({ admission, producer, load }),
    }),
    patience: createCheckPatience(redis),
    returnAtMs: createReturnTimes(),
    leases,
    checkpoints: createCheckpoints({ redis, blobs: store.blobs, onError }),
    switches: places.switches,
    workspaces: createWorkspaces({ redis, store: store.workspaces }),
    metrics: { ended: (record) => telemetry.instruments.ended(record) },
    logger,
    defaultRetentionDays: DEFAULT_RETENTION_DAYS,
    within: (request) => withinSection(request, config.sandbox),
    prices: config.prices,
    canEncrypt: store.canEncrypt,
  }
}
