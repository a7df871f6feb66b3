/**
 * GET /v1/executions: live ones from the queue, then ended ones from the store, each newest first. Pages go through
 * the ended ones by keyset; the live ones stand on the first page.
 *
 * The queue is read before the store: an execution that ends in between is then in both and shown once, as ended,
 * and never in neither, since the audit row is written before the queue lets go.
 */
import { executionStateSchema, type ExecutionState } from '@cofferdam/contract'
import { z } from 'zod'
import { tenantFilter } from '../authenticate.ts'
import { pageFilter, pageQuery } from '../page-query.ts'
import type { App, RouteContext } from '../route-context.ts'
import { DEFAULT_PAGE, FAILURES, nextCursorSchema } from '../wire-schemas.ts'

const query = pageQuery.extend({
  status: z
    .enum(['live', 'ended'])
    .optional()
    .meta({ description: 'live: delayed, queued or running. Both when absent.' }),
})
type Query = z.output<typeof query>

/** Tenants whose live executions are gathered for an admin key that names no tenant: one call of Redis each. */
const MAX_TENANTS = 100

/** Adds the route. */
export function listExecutions(app: App, context: RouteContext): void {
  app.get(
    '/executions',
    {
      schema: {
        operationId: 'listExecutions',
        tags: ['executions'],
        summary: 'Live executions, then ended ones, each newest first.',
        description:
          'Live ones stand on the first page, and only without exit_status. Texts of results are cut at 16 KiB. ' +
          `Without tenant_id, an admin key sees the live executions of the first ${MAX_TENANTS} tenants.`,
        querystring: query,
        response: {
          200: z.strictObject({ executions: z.array(executionStateSchema), next_cursor: nextCursorSchema }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const asked = request.query
      const tenantId = tenantFilter(request, asked.tenant_id)
      const live = showsLive(asked) ? await liveExecutions(context, tenantId, asked) : []
      if (asked.status === 'live') return { executions: live, next_cursor: null }
      const { rows, next_cursor } = await context.store.listExecutions(pageFilter(asked, tenantId))
      const ended = new Set(rows.map((row) => row.execution_id))
      return { executions: [...live.filter((one) => !ended.has(one.execution_id)), ...rows], next_cursor }
    },
  )
}

function showsLive(asked: Query): boolean {
  return asked.status !== 'ended' && asked.cursor === undefined && asked.exit_status === undefined
}

async function liveExecutions(
  context: RouteContext,
  tenantId: string | null,
  asked: Query,
): Promise<ExecutionState[]> {
  const limit = asked.limit ?? DEFAULT_PAGE
  const tenants = tenantId === null ? await tenantIds(context) : [tenantId]
  const perTenant = await Promise.all(tenants.map((tenant) => context.producer.live(tenant, limit)))
  return perTenant
    .flat()
    .filter((state) => asked.agent_id === undefined || state.agent_id === asked.agent_id)
    .filter((state) => isWithin(Date.parse(state.enqueued_at), asked))
    .sort((a, b) => (a.execution_id < b.execution_id ? 1 : -1))
    .slice(0, limit)
}

async function tenantIds(context: RouteContext): Promise<string[]> {
  const tenants = await context.store.tenants.list({ limit: MAX_TENANTS })
  return tenants.map((tenant) => tenant.policy.tenant_id)
}

function isWithin(atMs: number, { from, to }: Query): boolean {
  return (from === undefined || atMs >= Date.parse(from)) && (to === undefined || atMs < Date.parse(to))
}
