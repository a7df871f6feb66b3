/**
 * Opens what a worker runs programs with: backends with their warm slots and sessions, the memory that they
 * share, their network, and the executor over all of them.
 */
import { availableParallelism } from 'node:os'
import { createRateGate } from '@cofferdam/admission'
import { createBackends, createRefillGate, type BackendDeps } from '@cofferdam/backends'
import { createEgress } from '@cofferdam/egress'
import type { Backend, ExecutionRequest, WorkerId } from '@cofferdam/contract'
import { createExecutor, createMemoryBudget, type Executor } from '@cofferdam/executor'
import { createWorkerPart } from '@cofferdam/polyclaw'
import { createSessionRegistry, type Sessions } from '@cofferdam/sessions'
import type { Store } from '@cofferdam/store'
import type { Logger, Telemetry } from '@cofferdam/telemetry'
import type { Redis } from 'ioredis'
import type { WorkerConfig } from './config.ts'
import { createInterpreterLookup } from './interpreter-lookup.ts'
import { createLeftovers } from './leftovers.ts'
import { createMemoryHeadroom, type MemoryHeadroom } from './memory-headroom.ts'
import { showSessions } from './show-sessions.ts'
import { createWarmCounts, type WarmCounts } from './warm-counts.ts'

const MiB = 1_048_576
/** As with slots, half of the memory stays for interactive work. */
const ROUTINE_MEMORY_SHARE = 0.5

/** May refuse a backend at the moment an execution would use it. */
export interface BackendSwitch {
  /** Public text why the execution may not use the backend. Null when it may. Never rejects. */
  refuses(request: Pick<ExecutionRequest, 'tenant_id' | 'idempotency_key'>): Promise<string | null>
}

export interface OpenBackends {
  backends: ReadonlyMap<string, Backend>
  executor: Executor
  /** Counts of warm and cold starts since the worker's start. */
  starts: WarmCounts
  headroom: MemoryHeadroom
  sessions: Sessions
  /** The switches that may refuse a backend, by its name. */
  switches: ReadonlyMap<string, BackendSwitch>
}

export interface OpenBackendsDeps {
  config: WorkerConfig
  workerId: WorkerId
  /** Connection of role `worker`. */
  redis: Redis
  /** Connection that fails fast. */
  control: Redis
  /** Like `control`, for the Redis of admission. */
  rates: Redis
  store: Store
  telemetry: Telemetry
  logger: Logger
  onError(this: void, error: unknown): void
}

/** Opens them. `owned` closes them, and tries once more to kill sandboxes that may be left. */
export async function openBackends(
  deps: OpenBackendsDeps,
  owned: AsyncDisposableStack,
): Promise<OpenBackends> {
  const { config, workerId, store, telemetry, logger, redis, control, rates, onError } = deps
  const memory = createMemoryBudget(config.memoryBudgetMib * MiB)
  const sessions = createSessionRegistry({ redis })
  const shown = owned.use(
    showSessions({ sessions: createSessionRegistry({ redis: control }), self: workerId, onError }),
  )
  const mounted = createWorkerPart({ backends: config.backends, store, redis, onError })
  const starts = createWarmCounts()
  const leftovers = createLeftovers({
    backend: (name) => backends.get(name),
    onGone: (ref) => logger.info({ ref }, 'ended a sandbox that was not proven gone'),
    onError: (error, ref) => logger.warn({ err: error, ref }, 'a sandbox is still not proven gone'),
  })
  const backends: ReadonlyMap<string, Backend> = await createBackends(config.backends, {
    logger,
    onLeft: (ref) => leftovers.add(ref),
    warm: {
      owner: workerId,
      memory,
      refillGate: createRefillGate(availableParallelism()),
      config: config.warm,
      observe(event) {
        telemetry.instruments.slotEvent(event)
        starts.note(event)
      },
      onSession: (name, state) => shown.show(name, state),
    },
    sessions,
    ...(store.sealedStreams === null ? {} : { sealing: store.sealedStreams }),
    interpreters: createInterpreterLookup({ rows: store.codeInterpreters, actor: workerId }),
    rate: createRateGate({ redis: rates }),
    ...mounted.backendDeps,
    ...identityOf(config),
  })
  for (const backend of backends.values()) owned.use(backend)
  // Disposed before the backends, which it needs for its last kills.
  owned.use(leftovers)
  const egress = config.sandbox.network ? owned.use(createEgress({ config: config.egress })) : null
  const executor = createExecutor({
    backends,
    order: [...backends.keys()],
    blobs: store.blobs,
    memory,
    ...(egress === null ? {} : { egress }),
    log: logger,
    onLeaked: ({ ref, ending }) => void leftovers.add(ref, ending),
  })
  owned.defer(
    telemetry.instruments.observeMemory(() => ({
      usedBytes: memory.usedBytes,
      limitBytes: memory.totalBytes,
      waiting: memory.waiting,
    })),
  )
  const headroom = createMemoryHeadroom(executor, config.lanes.length > 1 ? ROUTINE_MEMORY_SHARE : 1)
  return { backends, executor, starts, headroom, sessions, switches: mounted.switches }
}

/** Only a complete pair of endpoint and header gives access to a managed identity. */
function identityOf({
  identityEndpoint: endpoint,
  identityHeader: header,
}: WorkerConfig): Pick<BackendDeps, 'identity'> {
  return endpoint === undefined || header === undefined ? {} : { identity: { endpoint, header } }
}
