/**
 * The background work of a worker for its fleet: it destroys what dead workers left, ends idle sessions,
 * drops old partitions, provisions interpreters, enqueues due routines, and posts results to callback URLs.
 * Every worker does all of it, so each part can run in several workers at once.
 */
import { createJudgedDial } from '@cofferdam/egress'
import type { Backend, SessionRegistry, WorkerId } from '@cofferdam/contract'
import {
  claimAuditLook,
  claimBucketLook,
  directoryOf,
  keepAuditFaults,
  type Producer,
} from '@cofferdam/queue'
import { serveCallbacks, serveTicks } from '@cofferdam/routines'
import type { Store } from '@cofferdam/store'
import type { Logger } from '@cofferdam/telemetry'
import type { Redis } from 'ioredis'
import type { WorkerConfig } from './config.ts'
import { createJanitor } from './janitor.ts'
import { keepProvisioned } from './keep-provisioned.ts'
import { keepAuditLook, keepRetention } from './keep-audit.ts'
import { createSessionReaper } from './session-reaper.ts'

export interface FleetDeps {
  config: Pick<WorkerConfig, 'sweepMs' | 'sessionReapMs' | 'provisioning' | 'callbacks' | 'placement'>
  workerId: WorkerId
  backends: ReadonlyMap<string, Backend>
  sessions: SessionRegistry
  store: Store
  producer: Producer
  /** Connection of role `worker`. */
  redis: Redis
  logger: Logger
  onError(this: void, error: unknown): void
}

/** Starts all of it. Disposing waits for the work under way. */
export function keepFleet(deps: FleetDeps): AsyncDisposable {
  const { config, workerId, backends, sessions, store, producer, redis, logger, onError } = deps
  const kept = new AsyncDisposableStack()
  kept.use(
    createJanitor({
      backends,
      self: workerId,
      everyMs: config.sweepMs,
      liveWorkers: async () => new Set((await producer.stats()).workers.map((worker) => worker.worker_id)),
      onSwept: (backend, owner, destroyed) =>
        logger.warn({ backend, owner, destroyed }, 'destroyed what a dead worker left'),
      onError,
    }),
  )
  kept.use(
    createSessionReaper({
      backends,
      sessions,
      self: workerId,
      tickMs: config.sessionReapMs,
      onEnded: ({ backend, tenantId, key }) =>
        logger.info({ backend, tenant_id: tenantId, session: key }, 'ended an idle session'),
      onError,
    }),
  )
  kept.use(
    keepRetention({
      retention: store.retention,
      claim: (everyMs) => claimBucketLook(redis, workerId, everyMs),
      onError,
    }),
  )
  kept.use(
    keepAuditLook({
      retention: store.retention,
      claim: (everyMs) => claimAuditLook(redis, workerId, everyMs),
      keep: (count) => keepAuditFaults(redis, count),
      onFaults: (faults) =>
        logger.error({ faults }, 'the audit tables are not as they should be: docs/operations/audit.md'),
      onError,
    }),
  )
  const { agentcore } = config.provisioning
  if (agentcore?.every_ms !== undefined) {
    const { every_ms: everyMs } = agentcore
    kept.use(keepProvisioned({ config: agentcore, everyMs, store, actor: workerId, logger, onError }))
  }
  const directory = directoryOf(config.placement)
  kept.use(serveTicks({ redis, routines: store.routines, producer, directory, onError }))
  const dial = createJudgedDial({ privateAllow: config.callbacks.private_allow })
  kept.use(serveCallbacks({ redis, producer, store, dial, onError }))
  return kept
}
