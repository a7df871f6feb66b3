/**
 * The producers of all cells of a fleet as one. A call that names a tenant goes to the cell that the
 * directory gives for it. A call that names an execution goes to the cell that its ID names. All other calls
 * ask all cells and go on without those that do not answer.
 */
import { cellOfId, type ExecutionId } from '@cofferdam/contract'
import type { Producer } from '../producer.ts'
import type { CellDirectory } from './directory.ts'
import { askCells, cellError, inCell, knownCell } from './in-cell.ts'
import { liveOfCells } from './live-pages.ts'
import { mergeStats, mergeTenants } from './merge-figures.ts'

/** Does not close the producers. The caller does. */
export function createCellsProducer(
  producers: ReadonlyMap<number, Producer>,
  directory: CellDirectory,
): Producer {
  const byTenant = async <T>(tenantId: string, call: (producer: Producer) => Promise<T>): Promise<T> => {
    const cell = await directory.cellOf(tenantId)
    return await inCell(cell, () => call(knownCell(producers, cell)))
  }
  const byId = async <T>(id: ExecutionId, call: (producer: Producer) => Promise<T>): Promise<T> => {
    const cell = cellOfId(id)
    return await inCell(cell, async () => call(knownCell(producers, cell)))
  }

  return {
    put: (request, options) => byTenant(request.tenant_id, (producer) => producer.put(request, options)),
    get: (id) => byId(id, (producer) => producer.get(id)),
    whyWaiting: (id) => byId(id, (producer) => producer.whyWaiting(id)),
    request: (id) => byId(id, (producer) => producer.request(id)),
    wait: (id, options) => byId(id, (producer) => producer.wait(id, options)),
    async *events(id, options) {
      const cell = cellOfId(id)
      try {
        yield* knownCell(producers, cell).events(id, options)
      } catch (error) {
        throw cellError(cell, error)
      }
    },
    cancel: (id, reason) => byId(id, (producer) => producer.cancel(id, reason)),
    cancelTenant: (tenantId, asked) =>
      byTenant(tenantId, (producer) => producer.cancelTenant(tenantId, asked)),
    live: (tenantId, limit) => byTenant(tenantId, (producer) => producer.live(tenantId, limit)),
    livePage: (tenantId, asked) =>
      tenantId === null
        ? liveOfCells(producers, asked)
        : byTenant(tenantId, (producer) => producer.livePage(tenantId, asked)),
    async stats() {
      const { answers, away } = await askCells(producers, (producer) => producer.stats())
      return mergeStats(
        answers.map(({ answer }) => answer),
        away,
      )
    },
    async tenants() {
      const { answers, away } = await askCells(producers, (producer) => producer.tenants())
      return mergeTenants(answers, away)
    },
    async oldestWaiting(tenantIds) {
      const cells = await Promise.all(tenantIds.map((tenant) => directory.cellOf(tenant)))
      const { answers } = await askCells(producers, (producer, cell) =>
        producer.oldestWaiting(tenantIds.filter((_tenant, index) => cells[index] === cell)),
      )
      return new Map(answers.flatMap(({ answer }) => [...answer]))
    },
    setTenantLimits: (tenantId, limits) =>
      byTenant(tenantId, (producer) => producer.setTenantLimits(tenantId, limits)),
    setRunSessions: (tenantId, shares) =>
      byTenant(tenantId, (producer) => producer.setRunSessions(tenantId, shares)),
    async [Symbol.asyncDispose]() {},
  }
}
