/** GET /v1/executions: live executions from the queue, then ended ones from the store. */
import { executionStateSchema, type ExecutionState } from '@cofferdam/contract'
import type { LiveFilter } from '@cofferdam/queue'
import { z } from 'zod'
import { tenantFilter } from '../authenticate.ts'
import { pageFilter, pageQuery } from '../cursors.ts'
import type { App, RouteContext } from '../route-context.ts'
import { DEFAULT_PAGE, FAILURES, namedFields, nextCursorSchema } from '../wire-schemas.ts'

const listQuery = pageQuery.extend({
  status: z
    .enum(['live', 'ended'])
    .optional()
    .meta({ description: 'live: delayed, queued or running. ended: the others. Default: both.' }),
})
type ListQuery = z.output<typeof listQuery>

export function executionList(app: App, context: RouteContext): void {
  app.get(
    '/executions',
    {
      schema: {
        operationId: 'listExecutions',
        tags: ['executions'],
        summary: 'Live executions, then ended ones, each newest first.',
        description:
          'Only the first page has live executions, the newest ones; `status=live` pages through all of ' +
          'them. Filters by exit_status and duration find only ended executions. A filter by session_id ' +
          'finds a live execution only once it runs. A filter by trace_id misses live executions that were ' +
          'enqueued without a trace. With filters, each page examines at most 5,000 live executions. ' +
          'Texts of results are cut at 16 KiB. A page may hold fewer than `limit`, even none: only ' +
          '`next_cursor` null means the end.',
        querystring: listQuery,
        response: {
          200: z.strictObject({
            executions: z.array(executionStateSchema).meta({ description: 'One page of executions.' }),
            next_cursor: nextCursorSchema,
          }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const { query } = request
      const tenantId = tenantFilter(request, query.tenant_id)
      const isLive = query.status === 'live'
      const list = { list: isLive ? 'live executions' : 'executions', tenantId }
      return context.cursors.page(list, query.cursor, (after) =>
        isLive ? livePage(context, tenantId, query, after) : mixedPage(context, tenantId, query, after),
      )
    },
  )
}

interface Page {
  executions: ExecutionState[]
  next_cursor: string | null
}

/**
 * The newest live executions, on the first page only, and ended ones page by page. The queue is read before
 * the store. An execution that ends in between is then in both and shown once, as ended. None is missing from
 * both, because the audit row is written before the queue removes the execution.
 */
async function mixedPage(
  context: RouteContext,
  tenantId: string | null,
  query: ListQuery,
  after?: string,
): Promise<Page> {
  const showsLive = query.status !== 'ended' && after === undefined && !asksForEnded(query)
  const live = showsLive ? (await livePage(context, tenantId, query)).executions : []
  const { rows, next_cursor } = await context.store.listExecutions(pageFilter(query, tenantId, after))
  const ended = new Set(rows.map((row) => row.execution_id))
  return { executions: [...live.filter((one) => !ended.has(one.execution_id)), ...rows], next_cursor }
}

/** Whether a filter asks for what only ended executions have. */
const asksForEnded = ({ exit_status, min_duration_ms, max_duration_ms }: ListQuery): boolean =>
  [exit_status, min_duration_ms, max_duration_ms].some((asked) => asked !== undefined)

async function livePage(
  context: RouteContext,
  tenantId: string | null,
  query: ListQuery,
  after?: string,
): Promise<Page> {
  if (asksForEnded(query)) return { executions: [], next_cursor: null }
  const { states, next } = await context.producer.livePage(tenantId, {
    limit: query.limit ?? DEFAULT_PAGE,
    filter: liveFilter(query),
    ...namedFields({ before: after }),
  })
  return { executions: states, next_cursor: next }
}

const liveFilter = (query: ListQuery): LiveFilter =>
  namedFields({
    agent: query.agent_id,
    user: query.user_id,
    run: query.run_id,
    template: query.template_id,
    trace: query.trace_id,
    kind: query.program_kind,
    backend: query.backend,
    session: query.session_id,
    from: query.from === undefined ? undefined : Date.parse(query.from),
    to: query.to === undefined ? undefined : Date.parse(query.to),
  })
