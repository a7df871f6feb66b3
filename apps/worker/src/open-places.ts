/**
 * Where a worker's programs run: its backends with their warm slots and sessions, the memory they share, their way to the
 * network, and the executor over all of these.
 */
import { createRateGate } from '@cofferdam/admission'
import { createBackends, type BackendDeps } from '@cofferdam/backends'
import { createEgress } from '@cofferdam/egress'
import type { Backend, WorkerId } from '@cofferdam/contract'
import { createExecutor, createMemoryBudget, type Executor } from '@cofferdam/executor'
import { createWorkerPart } from '@cofferdam/polyclaw'
import { createSessionRegistry, type Sessions } from '@cofferdam/sessions'
import type { Store } from '@cofferdam/store'
import type { Logger, Telemetry } from '@cofferdam/telemetry'
import type { WorkerConfig } from './config.ts'
import { createInterpreterLookup } from './interpreter-lookup.ts'
import { createLeftovers } from './leftovers.ts'
import { createMemoryRoom, type MemoryRoom } from './memory-room.ts'
import { showSessions } from './show-sessions.ts'
import { warmPlaces } from './warm-places.ts'
import type { WorkerConnections } from './worker-connections.ts'
import type { WorkerDeps } from './worker-deps.ts'

const MiB = 1_048_576
/** As with slots: half of the memory stays for interactive work. */
const ROUTINE_MEMORY_SHARE = 0.5

export interface Places {
  backends: ReadonlyMap<string, Backend>
  executor: Executor
  /** Its memory as the queue asks for it. */
  room: MemoryRoom
  sessions: Sessions
  /** What may refuse a backend, by its name. */
  switches: WorkerDeps['switches']
}

export interface PlacesDeps extends Pick<WorkerConnections, 'redis' | 'control'> {
  config: WorkerConfig
  workerId: WorkerId
  store: Store
  telemetry: Telemetry
  logger: Logger
  onError(this: void, error: unknown): void
}

/** Opens them; `owned` closes them, and asks once more for what was not proven gone. */
export async function openPlaces(deps: PlacesDeps, owned: AsyncDisposableStack): Promise<Places> {
  const { config, workerId, store, telemetry, logger, redis, control, onError } = deps
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
  const mounted = createWorkerPart({ backends: config.backends, store, redis, onError })
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
    interpreters: createInterpreterLookup({ rows: store.codeInterpreters, actor: workerId }),
    rate: createRateGate({ redis: control }),
    ...mounted.backendDeps,
    ...identityOf(config),
  })
  for (const backend of backends.values()) owned.use(backend)
  // Disposed before them, whom it asks once more.
  owned.use(leftovers)
  const egress = config.sandbox.network ? owned.use(createEgress({ config: config.egress })) : null
  const executor = createExecutor({
    backends,
    order: [...backends.keys()],
    blobs: store.blobs,
    memory,
    ...(egress === null ? {} : { egress }),
    log: logger,
    onLeaked: ({ ref, ending }) => leftovers.add(ref, ending),
  })
  owned.defer(
    telemetry.instruments.observeMemory(() => ({
      usedBytes: executor.memory.usedBytes,
      limitBytes: executor.memory.totalBytes,
      waiting: executor.memory.waiting,
    })),
  )
  const room = createMemoryRoom(executor, config.lanes.length > 1 ? ROUTINE_MEMORY_SHARE : 1)
  return { backends, executor, room, sessions, switches: mounted.switches }
}

/** A managed identity is told by both or not at all. */
function identityOf({
  identityEndpoint: endpoint,
  identityHeader: header,
}: WorkerConfig): Pick<BackendDeps, 'identity'> {
  return endpoint === undefined || header === undefined ? {} : { identity: { endpoint, header } }
}
