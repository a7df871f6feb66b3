/**
 * GET /v1/queue/tenants: the waiting and running executions of each tenant, its actual and fair share, and
 * its turn.
 */
import { performance } from 'node:perf_hooks'
import { QUEUE_TENANT_SORTS, queueTenantsSchema, type QueueTenant } from '@cofferdam/contract'
import { z } from 'zod'
import type { App, RouteContext } from '../route-context.ts'
import { readTenantRows, sorted, unlessAway, type TenantRow, type TenantRows } from '../tenant-shares.ts'
import { FAILURES, limitQuery, MAX_PAGE } from '../wire-schemas.ts'

const DEFAULT_ROWS = 100

/**
 * How long one reading serves all callers of this process: one second, or 20 times as long as the reading
 * took if that is more. With 10,000 tenants a reading takes 0.1 to 0.5 s, so it can be 10 s old.
 */
const SHARED_MS = 1000
const TIMES_AS_LONG = 20

const tenantsQuery = z.strictObject({
  sort: z
    .enum(QUEUE_TENANT_SORTS)
    .optional()
    .meta({
      description:
        'Which tenant comes first. next (default): the one that is served next. waiting: the one with the ' +
        'most waiting executions. share: the largest share_1m. lag: the largest virtual_lag.',
    }),
  limit: limitQuery.optional().meta({
    description: `Rows, 1 to ${MAX_PAGE}. Default: ${DEFAULT_ROWS}.`,
    example: '100',
  }),
})

export function queueTenants(app: App, context: RouteContext): void {
  const read = shared(() => readTenantRows(context))
  app.get(
    '/queue/tenants',
    {
      // Only for admin keys, because the answer shows the load of all tenants.
      config: { admin: true },
      schema: {
        operationId: 'listQueueTenants',
        tags: ['queue'],
        summary: 'What waits and runs for each tenant, its actual and due share, and who is next. Admin.',
        description:
          'One row for each tenant with executions waiting or running. At most 10,000 tenants are read. An ' +
          'answer may be some seconds old, because callers share a reading.',
        querystring: tenantsQuery,
        response: { 200: queueTenantsSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { sort = 'next', limit = DEFAULT_ROWS } = request.query
      const { atMs, rows, complete } = await read()
      const shown = sorted(rows, sort).slice(0, limit)
      return {
        at: new Date(atMs).toISOString(),
        tenants: await withDetails(context, shown, atMs),
        total: rows.length,
        complete,
      }
    },
  )
}

/** Adds the fields that are read only for the rows in the answer. */
async function withDetails(
  context: RouteContext,
  rows: readonly TenantRow[],
  atMs: number,
): Promise<QueueTenant[]> {
  const names = rows.map((row) => row.tenant_id)
  const [oldest, stopped] = await Promise.all([
    context.producer.oldestWaiting(names),
    unlessAway(context.store.tenants.stopped(names)),
  ])
  return rows.map(({ parked_until, ...row }) => {
    const since = oldest.get(row.tenant_id)
    return {
      ...row,
      oldest_age_ms: since === undefined ? null : Math.max(0, atMs - since),
      parked_until,
      kill_switch: stopped === null ? null : stopped.has(row.tenant_id),
    }
  })
}

/** Calls that come while a reading is under way, or soon after it, get the same one, unless it failed. */
function shared(read: () => Promise<TenantRows>): () => Promise<TenantRows> {
  let last: { reading: Promise<TenantRows>; untilMs: number } | null = null
  return async () => {
    if (last !== null && performance.now() < last.untilMs) return last.reading
    const startedMs = performance.now()
    const mine = { reading: read(), untilMs: Infinity }
    last = mine
    try {
      const rows = await mine.reading
      const endedMs = performance.now()
      mine.untilMs = endedMs + Math.max(SHARED_MS, TIMES_AS_LONG * (endedMs - startedMs))
      return rows
    } catch (error) {
      mine.untilMs = 0
      throw error
    }
  }
}
