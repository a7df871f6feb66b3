/** GET /v1/audit/invocations: one row per attempt. A tenant key sees its own only. */
import { auditRowSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { tenantFilter } from '../authenticate.ts'
import { pageFilter, pageQuery } from '../page-query.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, nextCursorSchema } from '../wire-schemas.ts'

/** Adds the route. */
export function audit(app: App, context: RouteContext): void {
  app.get(
    '/audit/invocations',
    {
      schema: {
        operationId: 'listInvocations',
        tags: ['audit'],
        summary: 'Audit rows, newest first.',
        querystring: pageQuery,
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
