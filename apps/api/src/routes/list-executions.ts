/**
 * GET /v1/executions: live ones from the queue, then ended ones from the store, each newest first. Pages go through
 * the ended ones by keyset; the newest live ones stand on the first page. `status=live` pages through all of these.
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

/** Live executions looked at for one page when not all match: each costs the queue a forecast. */
const MAX_LOOKED_AT = 1000

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
          'The newest live ones stand on the first page, and only without exit_status; `status=live` pages through all. ' +
          'Texts of results are cut at 16 KiB. A page may hold fewer than `limit`, even none: only `next_cursor` null means the end.',
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
      const of = { list: asked.status === 'live' ? 'live executions' : 'executions', tenantId }
      const after = await context.cursors.open(of, asked.cursor)
      if (asked.status === 'live') {
        const page = await livePage(context, tenantId, asked, after)
        return { ...page, next_cursor: await context.cursors.seal(of, page.next_cursor) }
      }
      const live = showsLive(asked) ? (await livePage(context, tenantId, asked)).executions : []
      const { rows, next_cursor } = await context.store.listExecutions(pageFilter(asked, tenantId, after))
      const ended = new Set(rows.map((row) => row.execution_id))
      return {
        executions: [...live.filter((one) => !ended.has(one.execution_id)), ...rows],
        next_cursor: await context.cursors.seal(of, next_cursor),
      }
    },
  )
}

function showsLive(asked: Query): boolean {
  return asked.status !== 'ended' && asked.cursor === undefined && asked.exit_status === undefined
}

async function livePage(
  context: RouteContext,
  tenantId: string | null,
  asked: Query,
  after?: string,
): Promise<{ executions: ExecutionState[]; next_cursor: string | null }> {
  const limit = asked.limit ?? DEFAULT_PAGE
  const executions: ExecutionState[] = []
  let place = after
  for (let looked = 0; looked < MAX_LOOKED_AT && executions.length < limit;) {
    const page = await context.producer.livePage(tenantId, {
      limit: limit - executions.length,
      ...(place === undefined ? {} : { before: place }),
    })
    executions.push(...page.states.filter((state) => matches(state, asked)))
    looked += page.states.length
    if (page.next === null) return { executions, next_cursor: null }
    place = page.next
  }
  return { executions, next_cursor: place ?? null }
}

const matches = (state: ExecutionState, asked: Query): boolean =>
  (asked.agent_id === undefined || state.agent_id === asked.agent_id) &&
  isWithin(Date.parse(state.enqueued_at), asked)

function isWithin(atMs: number, { from, to }: Query): boolean {
  return (from === undefined || atMs >= Date.parse(from)) && (to === undefined || atMs < Date.parse(to))
}
