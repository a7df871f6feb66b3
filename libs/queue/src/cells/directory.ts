/** Which tenant lives in which cell. */
import { CELL_MAX, nameSchema } from '@cofferdam/contract'
import { z } from 'zod'

export interface CellDirectory {
  /** The number of the cell in which a tenant lives. */
  cellOf(this: void, tenantId: string): Promise<number>
}

const cellNumber = z.int().min(0).max(CELL_MAX)

/** The section `cells` of cofferdam.config.yaml, which API and workers read. */
export const cellsConfigSchema = z.strictObject({
  tenants: z
    .record(nameSchema, cellNumber)
    .default({})
    .describe('Tenant → number of its cell. A tenant must never change its cell while it has executions.'),
  others: cellNumber.default(0).describe('The cell of all other tenants.'),
})
export type CellsConfig = z.output<typeof cellsConfigSchema>

/** The directory that a configuration file holds. */
export function directoryOf({ tenants, others }: CellsConfig): CellDirectory {
  const placed = new Map(Object.entries(tenants))
  return { cellOf: async (tenantId) => placed.get(tenantId) ?? others }
}
