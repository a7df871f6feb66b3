/**
 * GET /v1/executions: live ones from the queue, then ended ones from the store, each newest first. Pages go through
 * the ended ones by keyset; the newest live ones stand on the first page. `status=live` pages through all of these.
 *
 * The queue is read before the store: an execution that ends in between is then in both and shown once, as ended,
 * and never in neither, since the audit row is written before the queue lets go.
 */
import { CofferdamError, executionStateSchema, type ExecutionState } from '@cofferdam/contract'
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
/** Cursors of the two lists are told apart: that of the store is base64 and never holds a colon. */
const LIVE_CURSOR = /^live:(\d{1,16})$/

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
      if (asked.status === 'live') return await livePage(context, tenantId, asked)
      const live = showsLive(asked) ? (await livePage(context, tenantId, asked)).executions : []
      const { rows, next_cursor } = await context.store.listExecutions(pageFilter(asked, tenantId))
      const ended = new Set(rows.map((row) => row.execution_id))
      return { executions: [...live.filter((one) => !ended.has(one.execution_id)), ...rows], next_cursor }
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
): Promise<{ executions: ExecutionState[]; next_cursor: string | null }> {
  const limit = asked.limit ?? DEFAULT_PAGE
  const executions: ExecutionState[] = []
  let place = asked.cursor === undefined ? undefined : placeOf(asked.cursor)
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
  return { executions, next_cursor: `live:${place}` }
}

const matches = (state: ExecutionState, asked: Query): boolean =>
  (asked.agent_id === undefined || state.agent_id === asked.agent_id) &&
  isWithin(Date.parse(state.enqueued_at), asked)

function placeOf(cursor: string): string {
  const place = LIVE_CURSOR.exec(cursor)?.[1]
  if (place === undefined)
    throw new CofferdamError(
      'invalid_request',
      'cursor: expected the next_cursor of a page of live executions.',
    )
  return place
}

function isWithin(atMs: number, { from, to }: Query): boolean {
  return (from === undefined || atMs >= Date.parse(from)) && (to === undefined || atMs < Date.parse(to))
}
