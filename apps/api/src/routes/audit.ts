/**
 * Audit rows, one per attempt. A tenant key sees its own rows only.
 *
 *   GET /v1/audit/invocations   pages, newest first
 *   GET /v1/audit/export        the same rows as NDJSON in one answer
 *   GET /v1/audit/feed          pages in the order of recording, which miss none and repeat none
 */
import { setTimeout as pause } from 'node:timers/promises'
import { auditRowSchema, endingSchema, executionIdSchema, idToUuid, type AuditRow } from '@cofferdam/contract'
import { auditCursor, type FeedPage, type InvocationFilter, type Store } from '@cofferdam/store'
import { z } from 'zod'
import { holderOf, tenantFilter } from '../authenticate.ts'
import { pageFilter, pageQuery } from '../cursors.ts'
import type { App, RouteContext } from '../route-context.ts'
import { goneSignal, sendLines, takeOver } from '../streams.ts'
import {
  cursorQuery,
  FAILURES,
  MAX_PAGE,
  namedFields,
  nextCursorSchema,
  waitSchema,
} from '../wire-schemas.ts'

/** How often a waiting feed reads again. Reading an empty index range of `attempts` costs 0.2 ms. */
const LOOK_MS = 250

const AFTER = /^(exe_[0-9a-f]{32})\.([1-9]\d{0,8})$/

const auditQuery = pageQuery.extend({
  execution_id: executionIdSchema.optional().meta({ description: 'Only rows of this execution.' }),
  ending: endingSchema.optional().meta({ description: 'Only rows that ended exactly like this.' }),
  code_hash: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'expected 64 lowercase hex digits: the SHA-256 of the program')
    .optional()
    .meta({
      description: 'Only rows of the program with this SHA-256, in lowercase hex.',
      example: '5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03',
    }),
  outbound_host: z.string().min(1).max(260).optional().meta({
    description: 'Only rows of programs that reached this host, with or without `:port`.',
    example: 'api.example.com',
  }),
})

const exportQuery = auditQuery.omit({ limit: true, cursor: true }).extend({
  after: z
    .string()
    .regex(AFTER, 'expected the last row that you have, as execution_id.attempt')
    .optional()
    .meta({
      description: 'Only rows after this one: `execution_id.attempt` of the last complete line that arrived.',
      example: 'exe_01a1fa08335671eda83cd82154726441.1',
    }),
})

const feedQuery = auditQuery.omit({ from: true, to: true, cursor: true }).extend({
  cursor: cursorQuery.optional().meta({
    description: '`cursor` of the page before, `now` (default) or `beginning`.',
    example: 'beginning',
  }),
  wait: waitSchema.optional().meta({
    description: 'How long to wait for the first row, 0 to 60s, such as `30s`. Default: 0.',
  }),
})

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
          200: z.strictObject({
            invocations: z.array(auditRowSchema).meta({ description: 'One page of rows.' }),
            next_cursor: nextCursorSchema,
          }),
          ...FAILURES,
        },
      },
    },
    async (request) => {
      const tenantId = tenantFilter(request, request.query.tenant_id)
      return context.cursors.page({ list: 'audit', tenantId }, request.query.cursor, async (after) => {
        const { rows, next_cursor } = await store.listAudit(filterOf(request.query, tenantId, after))
        return { invocations: rows, next_cursor }
      })
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
          'Rows recorded while it runs may be missing: see /v1/audit/feed. An answer that broke off lacks ' +
          'the final HTTP chunk. Continue it with `after`.',
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
      const filter = {
        ...filterOf(asked, tenantFilter(request, asked.tenant_id)),
        limit: MAX_PAGE,
        ...(after === undefined ? {} : { cursor: positionOf(after) }),
      }
      using _slot = context.exports.require(holderOf(request))
      using gone = goneSignal(reply, context.draining)
      try {
        // The first page is read before the headers are sent, so that a failure still gets its own status.
        const first = await store.listAudit(filter)
        const pages = pagesFrom(store, filter, first)
        await sendLines(reply.raw, pages, { headers: takeOver(reply), signal: gone.signal })
      } catch (error) {
        if (!reply.sent) throw error
        request.log.warn({ err: error }, 'audit export broke off')
      }
      return await reply
    },
  )

  app.get(
    '/audit/feed',
    {
      exposeHeadRoute: false,
      schema: {
        operationId: 'followInvocations',
        tags: ['audit'],
        summary: 'Audit rows in the order of recording. A caller that follows the cursor misses none.',
        querystring: feedQuery,
        response: {
          200: z.strictObject({
            invocations: z.array(auditRowSchema).meta({ description: 'One page of rows.' }),
            cursor: z.string().meta({ description: 'Pass it back for what comes next.', example: 'AYx3…' }),
          }),
          ...FAILURES,
        },
      },
    },
    async (request, reply) => {
      const { wait = 0, cursor = 'now', ...asked } = request.query
      const tenantId = tenantFilter(request, asked.tenant_id)
      const list = { list: 'feed', tenantId }
      // Instead of a cursor, a caller may send one of these words. The default is now.
      const isWord = cursor === 'now' || cursor === 'beginning'
      const start = isWord ? cursor : ((await context.cursors.open(list, cursor)) ?? cursor)
      const filter = filterOf(asked, tenantId)
      using _slot = wait === 0 ? null : context.waits.require(holderOf(request))
      using gone = goneSignal(reply, context.draining)
      const read = (after: string): Promise<FeedPage> => store.feed({ ...filter, after })
      const { rows, cursor: next } = await firstRows(read, start, wait, gone.signal)
      return { invocations: rows, cursor: await context.cursors.seal(list, next) }
    },
  )
}

/** The store's filter. `tenantId` null means all tenants. `cursor` is the store's position. */
const filterOf = (
  asked: Omit<z.output<typeof auditQuery>, 'cursor'>,
  tenantId: string | null,
  cursor?: string,
): InvocationFilter => ({
  ...pageFilter(asked, tenantId, cursor),
  ...namedFields({
    executionId: asked.execution_id,
    ending: asked.ending,
    codeHash: asked.code_hash,
    outboundHost: asked.outbound_host,
  }),
})

/** Reads until there is a row, the time is over, or the client has disconnected. */
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

async function* pagesFrom(
  store: Store,
  filter: InvocationFilter,
  first: { rows: readonly AuditRow[]; next_cursor: string | null },
): AsyncGenerator<readonly AuditRow[]> {
  let page = first
  for (;;) {
    yield page.rows
    if (page.next_cursor === null) return
    page = await store.listAudit({ ...filter, cursor: page.next_cursor })
  }
}

/** The store's position of `execution_id.attempt`. */
function positionOf(after: string): string {
  const [, id, attempt] = AFTER.exec(after) ?? []
  return auditCursor(idToUuid(executionIdSchema.parse(id)), Number(attempt))
}
