/** The filters that lists of executions and of audit rows share. */
import { exitStatusSchema, nameSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { DEFAULT_PAGE, cursorQuery, limitQuery, timeQuery } from './wire-schemas.ts'

export const pageQuery = z.strictObject({
  tenant_id: nameSchema.optional(),
  agent_id: nameSchema.optional(),
  exit_status: exitStatusSchema.optional(),
  from: timeQuery.optional().meta({ description: 'Enqueued at or after.' }),
  to: timeQuery.optional().meta({ description: 'Enqueued before.' }),
  limit: limitQuery.optional(),
  cursor: cursorQuery.optional(),
})

/**
 * The store's filter of a list query. `tenantId` null means all tenants; `cursor` is the store's own
 * (cursors.ts).
 */
export function pageFilter(
  asked: Omit<z.output<typeof pageQuery>, 'cursor'>,
  tenantId: string | null,
  cursor?: string,
) {
  return {
    tenantId,
    limit: asked.limit ?? DEFAULT_PAGE,
    ...(asked.agent_id === undefined ? {} : { agentId: asked.agent_id }),
    ...(asked.exit_status === undefined ? {} : { exitStatus: asked.exit_status }),
    ...(asked.from === undefined ? {} : { from: asked.from }),
    ...(asked.to === undefined ? {} : { to: asked.to }),
    ...(cursor === undefined ? {} : { cursor }),
  }
}
