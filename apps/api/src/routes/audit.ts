/**
 * Audit rows, one per attempt; a tenant key sees its own only.
 *
 *   GET /v1/audit/invocations   pages, newest first
 *   GET /v1/audit/export        the same rows as NDJSON in one answer
 *   GET /v1/audit/feed          pages in the order of recording, which miss none and repeat none
 */
import { setTimeout as pause } from 'node:timers/promises'
import {
  auditRowSchema,
  CofferdamError,
  executionIdSchema,
  idToUuid,
  type AuditRow,
} from '@cofferdam/contract'
import { auditCursor, type FeedPage, type InvocationFilter, type Store } from '@cofferdam/store'
import { z } from 'zod'
import { auditFilter, auditQuery } from '../audit-query.ts'
import { holderOf, tenantFilter } from '../authenticate.ts'
import { parseDurationMs, waitSchema } from '../duration.ts'
import { goneSignal } from '../gone-signal.ts'
import { sendLines } from '../line-stream.ts'
import type { App, RouteContext } from '../route-context.ts'
import { cursorQuery, FAILURES, MAX_PAGE, nextCursorSchema } from '../wire-schemas.ts'

/** How often a waiting feed looks again: an index range of `attempts` that is empty costs 0.2 ms. */
const LOOK_MS = 250

const AFTER = /^(exe_[0-9a-f]{32})\.([1-9]\d{0,8})$/

const exportQuery = auditQuery.omit({ limit: true, cursor: true }).extend({
  after: z
    .string()
    .regex(AFTER, 'expected the last row that you have, as execution_id.attempt')
    .optional()
    .meta({ description: 'Go on behind this row: `execution_id.attempt` of the last whole line that came.' }),
})

const feedQuery = auditQuery.omit({ from: true, to: true, cursor: true }).extend({
  cursor: cursorQuery.optional().meta({
    description: '`cursor` of the page before, `now` (default) or `beginning`.',
  }),
  wait: waitSchema.optional().meta({ description: 'How long to wait for the first row, e.g. `30s`.' }),
})

/** Adds the routes. */
export function audit(app: App, context: RouteContext): void {
  const { store } = context

  app.get(
    '/audit/invocations',
    {
      schema: {
        operationId: 'listInvocations',
        tags: ['audit'],
        summary: 'Audit rows, newest first.',
        description:
          'A page may hold fewer rows than `limit`, even none: only `next_cursor` null means the end.',
        querystring: auditQuery,
        response: {
          200: z.strictObject({ invocations: z.array(auditRowSchema), next_cursor: nextCursorSchema }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const tenantId = tenantFilter(request, request.query.tenant_id)
      const of = { list: 'audit', tenantId }
      const after = await context.cursors.open(of, request.query.cursor)
      const { rows, next_cursor } = await store.listAudit(auditFilter(request.query, tenantId, after))
      return { invocations: rows, next_cursor: await context.cursors.seal(of, next_cursor) }
    },
  )

  app.get(
    '/audit/export',
    {
      exposeHeadRoute: false,
      schema: {
        operationId: 'exportInvocations',
        tags: ['audit'],
        summary: 'Audit rows as NDJSON, newest first, in one answer.',
        description:
          'Rows recorded while it runs may be missing: see /v1/audit/feed. An answer that broke off ends without the last chunk; go on with `after`.',
        querystring: exportQuery,
        response: {
          200: {
            description: 'One audit row a line.',
            content: { 'application/x-ndjson': { schema: auditRowSchema } },
          },
          ...FAILURES,
        },
      },
    },
    async (request, reply) => {
      const { after, ...asked } = request.query
      const filter: InvocationFilter = {
        ...auditFilter(asked, tenantFilter(request, asked.tenant_id)),
        limit: MAX_PAGE,
        ...(after === undefined ? {} : { cursor: cursorOf(after) }),
      }
      const place = context.exports.take(holderOf(request))
      if (place === null)
        throw new CofferdamError('busy', 'As many exports are sent here as may, or as this caller may.')
      using gone = goneSignal(reply, context.draining)
      try {
        const pages = exportPages(store, filter)
        // What can be refused is refused before the headers leave.
        const first = await pages.next()
        reply.hijack()
        const headers = Object.fromEntries(
          Object.entries(reply.getHeaders()).map(([name, value]) => [name, String(value)]),
        )
        await sendLines(reply.raw, withFirst(first, pages), { headers, signal: gone.signal })
      } catch (error) {
        if (!reply.sent) throw error
        request.log.warn({ err: error }, 'audit export broke off')
      } finally {
        place.release()
      }
      return reply
    },
  )

  app.get(
    '/audit/feed',
    {
      exposeHeadRoute: false,
      schema: {
        operationId: 'followInvocations',
        tags: ['audit'],
        summary: 'Audit rows in the order of recording; following the cursor misses none.',
        querystring: feedQuery,
        response: {
          200: z.strictObject({
            invocations: z.array(auditRowSchema),
            cursor: z.string().meta({ description: 'Pass it back for what comes next.' }),
          }),
          ...FAILURES,
        },
      },
    },
    async (request, reply) => {
      const { wait, cursor = 'now', ...asked } = request.query
      const tenantId = tenantFilter(request, asked.tenant_id)
      const of = { list: 'feed', tenantId }
      const after = isWord(cursor) ? cursor : ((await context.cursors.open(of, cursor)) ?? cursor)
      const filter = auditFilter(asked, tenantId)
      const read = (after: string): Promise<FeedPage> => store.feed({ ...filter, after })
      const waitMs = wait === undefined ? 0 : (parseDurationMs(wait) ?? 0)
      const place = waitMs === 0 ? undefined : context.waits.take(holderOf(request))
      if (place === null)
        throw new CofferdamError('busy', 'As many requests wait here as may, or as this caller may.')
      using gone = goneSignal(reply, context.draining)
      try {
        const { rows, cursor: next } = await firstRows(read, after, waitMs, gone.signal)
        return { invocations: rows, cursor: await context.cursors.seal(of, next) }
      } finally {
        place?.release()
      }
    },
  )
}

/** Where a feed begins that has no cursor yet. */
const isWord = (cursor: string): boolean => cursor === 'now' || cursor === 'beginning'

/** Reads on until there is a row, the time is over, or nobody waits any more. */
async function firstRows(
  read: (after: string) => Promise<FeedPage>,
  after: string,
  waitMs: number,
  signal: AbortSignal,
): Promise<FeedPage> {
  const untilMs = performance.now() + waitMs
  let page = await read(after)
  while (page.rows.length === 0 && !signal.aborted && performance.now() < untilMs) {
    if (page.drained)
      await pause(Math.min(LOOK_MS, untilMs - performance.now()), undefined, { signal }).catch(
        () => undefined,
      )
    page = await read(page.cursor)
  }
  return page
}

async function* exportPages(store: Store, filter: InvocationFilter): AsyncGenerator<readonly AuditRow[]> {
  let next: string | null = filter.cursor ?? null
  do {
    const page = await store.listAudit({ ...filter, ...(next === null ? {} : { cursor: next }) })
    yield page.rows
    next = page.next_cursor
  } while (next !== null)
}

async function* withFirst<T>(first: IteratorResult<T, unknown>, rest: AsyncGenerator<T>): AsyncGenerator<T> {
  if (first.done === true) return
  yield first.value
  yield* rest
}

function cursorOf(after: string): string {
  const [, id, attempt] = AFTER.exec(after) ?? []
  return auditCursor(idToUuid(executionIdSchema.parse(id)), Number(attempt))
}
