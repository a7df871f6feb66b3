/** Reads the list from the API: live executions from the queue, ended ones from the audit rows. */
import type { ExecutionState, Operations } from '@cofferdam/client'
import { read } from '../../api/call.ts'
import { canBeLive, fromOf, type ListQuery } from './filters.ts'
import { endedRow, liveRow, type Row } from './row.ts'
import { lastAttempts } from './row-list.ts'

/** Rows of one page. */
const PAGE = '50'
/** Most live executions that are shown above the ended ones. The newest are chosen. */
const LIVE_ABOVE = '50'

export interface LoadedPage {
  rows: Row[]
  /** The cursor of the next page. Null on the last. */
  next: string | null
  /** Whether there are live executions that match and are not shown. */
  moreLive: boolean
}

/** The live executions that match, the newest first. */
export async function readLive(
  query: ListQuery,
  limit: string,
  cursor: string | null,
  signal: AbortSignal,
): Promise<{ rows: Row[]; next: string | null }> {
  if (!canBeLive(query.filters)) return { rows: [], next: null }
  const page = await read<Operations['listExecutions']['result']>('/v1/executions', {
    query: { status: 'live', limit, cursor, ...query.filters, ...fromOf(query.within, Date.now()) },
    signal,
  })
  return { rows: page.executions.map(liveRow), next: page.next_cursor }
}

/** The page that the query names. */
export async function readPage(query: ListQuery, signal: AbortSignal): Promise<LoadedPage> {
  const { status, cursor } = query
  if (status === 'live') {
    const live = await readLive(query, PAGE, cursor, signal)
    return { ...live, moreLive: false }
  }
  const withLive = status === 'all' && cursor === null
  // Live rows are read first: an execution that ends in between is in both answers, and shown once.
  const live = withLive ? await readLive(query, LIVE_ABOVE, null, signal) : { rows: [], next: null }
  const page = await read<Operations['listInvocations']['result']>('/v1/audit/invocations', {
    query: { limit: PAGE, cursor, ...query.filters, ...fromOf(query.within, Date.now()) },
    signal,
  })
  return {
    rows: lastAttempts([...live.rows, ...page.invocations.map(endedRow)]),
    next: page.next_cursor,
    moreLive: live.next !== null,
  }
}

/** One execution as it is now. */
export const readRow = async (id: string, signal: AbortSignal): Promise<Row> =>
  liveRow(await read<ExecutionState>(`/v1/executions/${id}`, { signal }))

/** What ended after `cursor`. Waits up to `wait` for the first one. */
export async function readFeed(
  query: ListQuery,
  cursor: string,
  wait: string,
  signal: AbortSignal,
): Promise<{ rows: Row[]; cursor: string }> {
  const page = await read<Operations['followInvocations']['result']>('/v1/audit/feed', {
    query: { cursor, wait, limit: '200', ...query.filters },
    signal,
  })
  return { rows: page.invocations.map(endedRow), cursor: page.cursor }
}
