/**
 * Opens what the API needs of each cell that it serves: connections, producer, admission and storage of
 * traces.
 */
import { createAdmission, type Admission } from '@cofferdam/admission'
import { cellOfId, type ExecutionId } from '@cofferdam/contract'
import {
  askCells,
  connectRedis,
  createCellsProducer,
  createProducer,
  createTraceShelf,
  directoryOf,
  LOCK_MS,
  mergeGroupDemand,
  readAuditFaults,
  readGroupDemand,
  type GroupDemand,
  type OfferedTrace,
  type Producer,
} from '@cofferdam/queue'
import type { Store } from '@cofferdam/store'
import type { Logger } from '@cofferdam/telemetry'
import type { Redis } from 'ioredis'
import { capsByCell, createCells, oneCell, type CapsOfTenants, type Cells } from './cells.ts'
import type { ApiConfig } from './config.ts'
import { createReasonRedactor } from './redaction.ts'

export interface OpenCells {
  cells: Cells
  /** The connection to the cell that REDIS_URL names. Sign-ins and MCP calls are stored in that cell too. */
  redis: Redis
  producer: Producer
  admission: CapsOfTenants
  /**
   * The number of faults that the last check of the audit tables found. Of several cells, the largest one.
   */
  auditFaults(): Promise<number | null>
  /** The waiting and running executions of each group of workers, summed over the cells that answer. */
  groupDemand(): Promise<GroupDemand[]>
  /** Keeps spans of a request in the cell of its execution. */
  keepTraces(onError: (error: unknown) => void): { offer(trace: OfferedTrace): void }
}

/** The connections are closed with `owned`. */
export function openCells(
  config: Pick<ApiConfig, 'redisUrl' | 'admissionRedisUrl' | 'cell' | 'cells' | 'placement'>,
  { store, logger }: { store: Store; logger: Logger },
  owned: AsyncDisposableStack,
): OpenCells {
  const connect = (url: string, role: 'producer' | 'subscriber', cell: number): Redis =>
    owned.adopt(connectRedis(url, role, cell), (redis) => redis.disconnect())
  const urls = new Map([[config.cell, config.redisUrl], ...config.cells])
  const all = new Map([...urls].map(([cell, url]) => [cell, connect(url, 'producer', cell)]))
  const redactReason = createReasonRedactor(store.tenants)
  const producers = new Map(
    [...all].map(([cell, redis]) => {
      const subscriber = connect(urls.get(cell) ?? '', 'subscriber', cell)
      return [cell, owned.use(createProducer({ redis, subscriber, redactReason }))]
    }),
  )
  const admissionOn = (redis: Redis): Admission =>
    createAdmission({
      redis,
      countCharged: (tenantId, atMs, unsettled) => store.chargedCounts(tenantId, atMs, unsettled),
      loadCaps: async (tenantId) => (await store.tenants.get(tenantId))?.caps ?? null,
      logger,
    })
  const apart =
    config.admissionRedisUrl === undefined
      ? null
      : admissionOn(connect(config.admissionRedisUrl, 'producer', config.cell))
  const redis = first(all, config.cell)
  const isOne = all.size === 1
  const directory = directoryOf(config.placement)
  return {
    cells: isOne ? oneCell(redis) : createCells(all, directory),
    redis,
    producer: isOne ? first(producers, config.cell) : createCellsProducer(producers, directory),
    // An admission with its own Redis serves all cells, because its keys name tenants and no cell.
    admission:
      apart ??
      (isOne
        ? admissionOn(redis)
        : capsByCell(new Map([...all].map(([cell, one]) => [cell, admissionOn(one)])), directory)),
    async auditFaults() {
      if (isOne) return await readAuditFaults(redis)
      const { answers } = await askCells(all, readAuditFaults)
      const known = answers.flatMap(({ answer }) => (answer === null ? [] : [answer]))
      return known.length === 0 ? null : Math.max(...known)
    },
    async groupDemand() {
      const { answers } = await askCells(all, (one) => readGroupDemand(one, LOCK_MS))
      return mergeGroupDemand(answers.map(({ answer }) => answer))
    },
    keepTraces(onError) {
      const shelves = new Map(
        [...all].map(([cell, one]) => [cell, owned.use(createTraceShelf({ redis: one, onError }))]),
      )
      return {
        offer: (trace) =>
          shelves.get(isOne ? config.cell : cellOfId(trace.executionId as ExecutionId))?.offer(trace),
      }
    },
  }
}

function first<T>(cells: ReadonlyMap<number, T>, cell: number): T {
  const own = cells.get(cell)
  if (own === undefined) throw new Error(`unreachable: cell ${cell} was just opened`)
  return own
}
