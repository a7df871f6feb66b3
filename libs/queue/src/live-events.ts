/** Reads the live events of one execution: the stored ones, then new ones until `ended`. */
import { CofferdamError, type ExecutionId, type StoredEvent } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import type { Guard } from './connect.ts'
import { isBefore, storedEvent, type EventTails } from './event-tails.ts'
import { keysOf } from './cell.ts'

/** Entries read at once from the stored part. */
const PAGE = 200
/** How often a tail without events checks that its execution still exists. */
const CHECK_MS = 15_000
const START = '0-0'

/**
 * Yields events after `after` (or from the start) and ends after `ended`, or when the signal aborts. A
 * `notice` replaces events that were trimmed before they could be read. Throws not_found when there is
 * neither a record nor a stream, and invalid_request when `after` is not a stream ID.
 */
export async function* readEvents(
  redis: Redis,
  guard: Guard,
  tails: EventTails,
  id: ExecutionId,
  { after, signal }: { after?: string | undefined; signal: AbortSignal },
): AsyncGenerator<StoredEvent, void, undefined> {
  if (after !== undefined && !/^\d{1,20}(-\d{1,20})?$/.test(after))
    throw new CofferdamError('invalid_request', `expected an event id such as 1700000000000-0, got ${after}`)
  const key = keysOf(redis).events + id
  let cursor = after ?? START

  const gap = await guard(() => gapBefore(redis, key, cursor))
  if (gap !== null) yield gap
  for (;;) {
    const page = await guard(() => redis.xrange(key, `(${cursor}`, '+', 'COUNT', PAGE))
    for (const entry of page) {
      if (signal.aborted) return
      const stored = storedEvent(entry)
      cursor = stored.id
      yield stored
      if (stored.event.type === 'ended') return
    }
    if (page.length < PAGE) break
  }

  const queued = await guard(() => unwritten(redis, id))
  if (queued !== null && isBefore(cursor, queued.id)) {
    cursor = queued.id
    yield queued
    if (signal.aborted) return
  }
  if (await isOver(redis, guard, id, cursor)) return
  using tail = tails.follow(id, cursor)
  while (!signal.aborted) {
    const events = await tail.next(CHECK_MS, signal)
    for (const stored of events) {
      cursor = stored.id
      yield stored
      if (stored.event.type === 'ended' || signal.aborted) return
    }
    if (events.length === 0 && !signal.aborted && (await isOver(redis, guard, id, cursor))) return
  }
}

/** The event `queued`, made from the record until ending.lua writes it with the second event. */
async function unwritten(redis: Redis, id: ExecutionId): Promise<StoredEvent | null> {
  const enqueued = await redis.hget(keysOf(redis).record + id, 'eq')
  return enqueued === null
    ? null
    : { id: `${enqueued}-0`, event: { type: 'queued', at_ms: Number(enqueued) } }
}

/**
 * True when nothing more will come. Throws not_found when the execution has no record and no event was ever
 * read.
 */
async function isOver(redis: Redis, guard: Guard, id: ExecutionId, cursor: string): Promise<boolean> {
  const [state, rest] = await guard(() =>
    Promise.all([
      redis.hget(keysOf(redis).record + id, 's'),
      redis.xrange(keysOf(redis).events + id, `(${cursor}`, '+', 'COUNT', 1),
    ]),
  )
  if (rest.length > 0) return false
  if (state === null && cursor === START) throw new CofferdamError('not_found', `no live events of ${id}`)
  return state === null || state === 'ended'
}

/** Every stream begins with `queued`, so any other first entry means that earlier events were trimmed. */
async function gapBefore(redis: Redis, key: string, cursor: string): Promise<StoredEvent | null> {
  const [first] = await redis.xrange(key, '-', '+', 'COUNT', 1)
  if (first === undefined || !isBefore(cursor, first[0])) return null
  const { event } = storedEvent(first)
  if (event.type === 'queued') return null
  const message = 'Earlier events are gone: the live stream keeps the newest ones only.'
  // The notice has the reader's own cursor as its id, so resuming after it continues at the first entry.
  return { id: cursor, event: { type: 'notice', at_ms: event.at_ms, message } }
}

/** Redacted output that a worker streamed. When the worker died, nothing else is left of the output. */
export interface Streamed {
  stdout: string
  stderr: string
  /** False when the live stream, which is bounded (event-buffer.ts), no longer has its beginning. */
  isWhole: boolean
}

/** Reads the output after the attempt's `started` event. Throws what Redis throws. */
export async function readStreamed(redis: Redis, id: ExecutionId, attempt: number): Promise<Streamed> {
  const found: Streamed = { stdout: '', stderr: '', isWhole: false }
  for (let cursor = '-'; ;) {
    const page = await redis.xrange(keysOf(redis).events + id, cursor, '+', 'COUNT', PAGE)
    for (const entry of page) {
      const { id: at, event } = storedEvent(entry)
      cursor = `(${at}`
      if (event.type === 'started')
        Object.assign(found, { stdout: '', stderr: '', isWhole: event.attempt === attempt })
      if (event.type === 'output') found[event.stream] += event.text
    }
    if (page.length < PAGE) return found
  }
}
