/** Audit rows, one per attempt: in pages, all at once, or as they are recorded. */
import type { AuditRow, Operations } from './wire.ts'
import type { Api, CallOptions } from './api.ts'
import { open, type HttpTarget } from './http-call.ts'
import type { List } from './pages.ts'
import { pause } from './pause.ts'
import { jsonOf, linesOf } from './read-answer.ts'
import { createPatience, isTransient } from './repeat.ts'

type ListOperation = Operations['listInvocations']
type ExportQuery = Operations['exportInvocations']['query']
type FeedQuery = Operations['followInvocations']['query']
type FeedPage = Operations['followInvocations']['result']

export interface Audit {
  /** Newest first, in pages. */
  list(query?: ListOperation['query'], options?: CallOptions): List<AuditRow, ListOperation['result']>
  /**
   * The same rows as one stream. If the answer breaks off, the client requests the rows after the last one.
   */
  export(query?: ExportQuery, options?: CallOptions): AsyncIterable<AuditRow>
  /**
   * Yields rows in the order of recording, and never ends. A page comes as soon as it has a row. Keep
   * `cursor` to continue later. Begins now, or with `cursor: 'beginning'` at the oldest row.
   */
  follow(query?: Omit<FeedQuery, 'wait'>, options?: CallOptions): AsyncIterable<FeedPage>
}

/** How long the API waits for a page's first row. Load balancers commonly cut idle connections at 60 s. */
const FEED_WAIT_MS = 30_000
/** The client waits this much longer than the API does. */
const SLACK_MS = 15_000

export function auditOf(api: Api, target: HttpTarget): Audit {
  return {
    list: (query, options) => api.list('/audit/invocations', 'invocations', query, options),
    export: (query, options) => exportRows(target, query ?? {}, options?.signal),
    async *follow(query = {}, options = {}) {
      for (let cursor = query.cursor; ;) {
        const page: FeedPage = await api.json({
          method: 'GET',
          path: '/audit/feed',
          query: { ...query, cursor, wait: `${FEED_WAIT_MS}ms` },
          timeoutMs: FEED_WAIT_MS + SLACK_MS,
          ...options,
        })
        cursor = page.cursor
        if (page.invocations.length > 0) yield page
      }
    },
  }
}

async function* exportRows(
  target: HttpTarget,
  query: ExportQuery,
  signal: AbortSignal | undefined,
): AsyncGenerator<AuditRow, void, undefined> {
  const patience = createPatience(target.retryForMs)
  let after = query.after
  for (;;) {
    let failure: unknown
    try {
      const answer = await open(target, {
        method: 'GET',
        path: '/audit/export',
        query: { ...query, after },
        signal,
      })
      try {
        for await (const line of linesOf(answer.chunks())) {
          const row = jsonOf(line) as AuditRow
          patience.reset()
          after = `${row.execution_id}.${row.attempt}`
          yield row
        }
        return
      } finally {
        answer.end()
      }
    } catch (error) {
      failure = error
    }
    const ms = isTransient(failure) ? patience.next(failure) : null
    if (ms === null) throw failure
    await pause(ms, signal, target.closed)
  }
}
