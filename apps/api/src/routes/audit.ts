/** GET /v1/audit/invocations: one row per attempt. A tenant key sees its own only. */
import { auditRowSchema, exitStatusSchema, nameSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { tenantFilter } from '../authenticate.ts'
import type { App, RouteContext } from '../route-context.ts'
import {
  DEFAULT_PAGE,
  FAILURES,
  cursorQuery,
  limitQuery,
  nextCursorSchema,
  timeQuery,
} from '../wire-schemas.ts'

const query = z.strictObject({
  tenant_id: nameSchema.optional(),
  agent_id: nameSchema.optional(),
  exit_status: exitStatusSchema.optional(),
  from: timeQuery.optional(),
  to: timeQuery.optional(),
  limit: limitQuery.optional(),
  cursor: cursorQuery.optional(),
})

/** Adds the route. */
export function audit(app: App, context: RouteContext): void {
  app.get(
    '/audit/invocations',
    {
      schema: {
        operationId: 'listInvocations',
        tags: ['audit'],
        summary: 'Audit rows, newest first.',
        querystring: query,
        response: {
          200: z.strictObject({ invocations: z.array(auditRowSchema), next_cursor: nextCursorSchema }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const { rows, next_cursor } = await context.store.listAudit(
        pageFilter(request.query, tenantFilter(request, request.query.tenant_id)),
      )
      return { invocations: rows, next_cursor }
    },
  )
}

/** The store's filter of a list query. */
export function pageFilter(asked: z.output<typeof query>, tenantId: string | null) {
  return {
    tenantId,
    limit: asked.limit ?? DEFAULT_PAGE,
    ...(asked.agent_id === undefined ? {} : { agentId: asked.agent_id }),
    ...(asked.exit_status === undefined ? {} : { exitStatus: asked.exit_status }),
    ...(asked.from === undefined ? {} : { from: asked.from }),
    ...(asked.to === undefined ? {} : { to: asked.to }),
    ...(asked.cursor === undefined ? {} : { cursor: asked.cursor }),
  }
}
