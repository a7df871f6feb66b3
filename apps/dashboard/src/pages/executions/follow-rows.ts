/** Keeps the newest page of the list fresh while the page is seen. */
import { asFailure, type Failure } from '../../api/failure.ts'
import { canBeLive, type ListQuery } from './filters.ts'
import { readFeed, readLive, readRow } from './load-rows.ts'
import type { Row } from './row.ts'

/** Time between two reads of the live executions. */
const LIVE_EVERY_MS = 2000
/**
 * How many live executions one call lists. If a row is shown as live but is missing from the list, it is read
 * by itself.
 */
const LIVE_LOOKED_AT = '100'
/** Most rows that are read one by one after each read of the live executions. */
const SINGLES = 8
/** The API holds a request for the feed for this long. */
const FEED_WAIT = '25s'

export interface Follower {
  /** Rows that changed or are new. */
  onRows(rows: readonly Row[]): void
  /** Null when it works again. */
  onFailure(failure: Failure | null): void
  /** Returns the IDs that are shown as live but are missing from `live`. */
  gone(live: readonly Row[]): readonly string[]
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })

/** Resolves when the page is seen. At once if it is. */
const seen = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (!document.hidden) return resolve()
    const look = (): void => {
      if (document.hidden && !signal.aborted) return
      document.removeEventListener('visibilitychange', look)
      resolve()
    }
    document.addEventListener('visibilitychange', look)
    signal.addEventListener('abort', look)
  })

/** Repeats `step` until the signal aborts. After a failure it waits longer each time, up to 30 s. */
async function repeat(step: () => Promise<void>, follower: Follower, signal: AbortSignal): Promise<void> {
  let failures = 0
  while (!signal.aborted) {
    await seen(signal)
    if (signal.aborted) return
    try {
      await step()
      if (failures > 0) follower.onFailure(null)
      failures = 0
    } catch (error) {
      if (signal.aborted) return
      failures += 1
      follower.onFailure(asFailure(error))
      await pause(Math.min(1000 * 2 ** failures, 30_000), signal)
    }
  }
}

async function lookAtLive(query: ListQuery, follower: Follower, signal: AbortSignal): Promise<void> {
  const { rows } = await readLive(query, LIVE_LOOKED_AT, null, signal)
  const gone = follower.gone(rows).slice(0, SINGLES)
  // An execution may be deleted with its tenant. Then its row stays as it was last seen.
  const singles = await Promise.allSettled(gone.map((id) => readRow(id, signal)))
  const found = singles.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  follower.onRows([...rows, ...found])
  await pause(LIVE_EVERY_MS, signal)
}

/** Starts to follow from `cursor` of the feed on. Returns a function that ends it. */
export function followRows(query: ListQuery, cursor: string, follower: Follower): () => void {
  const ended = new AbortController()
  const { signal } = ended
  let after = cursor
  const showsLive = query.status !== 'ended' && canBeLive(query.filters)
  if (showsLive) void repeat(() => lookAtLive(query, follower, signal), follower, signal)
  // A hidden page aborts its feed request, because the API limits how many requests may wait. It reads what
  // it missed when it is shown again.
  let held: AbortController | null = null
  const letGo = (): void => {
    if (document.hidden) held?.abort()
  }
  document.addEventListener('visibilitychange', letGo)
  const feed = async (): Promise<void> => {
    held = new AbortController()
    try {
      const came = await readFeed(query, after, FEED_WAIT, AbortSignal.any([signal, held.signal]))
      after = came.cursor
      follower.onRows(came.rows)
    } catch (error) {
      if (!held.signal.aborted) throw error
    }
  }
  if (query.status !== 'live') void repeat(feed, follower, signal)
  return () => {
    ended.abort()
    document.removeEventListener('visibilitychange', letGo)
  }
}
