/**
 * Follows many live streams over one blocking connection. Each read includes a stream of our own
 * (`wake:<producer>`): an entry there ends the blocking read, so that a changed set of tails is read at once
 * and without a race. CLIENT UNBLOCK would miss a read that has not started yet.
 */
import type { ExecutionEvent, ExecutionId, StoredEvent } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { duplicateOf } from './connect.ts'
import { keysOf } from './cell.ts'

/** How long one read blocks. If a wake-up is lost, a changed set of tails is read after at most this time. */
const BLOCK_MS = 5000
/** A read that has not answered this long after its block time is stuck on a dead connection. */
const STUCK_MS = 5000
/** Events buffered per tail. A tail with a full buffer is not read until its reader has drained it. */
const BUFFER = 512

interface Tail {
  key: string
  cursor: string
  buffer: StoredEvent[]
  notify: () => void
}

export interface EventTail extends Disposable {
  /** The next events in order. Empty when none came within `timeoutMs` or when the signal aborted. */
  next(timeoutMs: number, signal: AbortSignal): Promise<StoredEvent[]>
}

export interface EventTails {
  /** Follows the stream of `id` after the entry `cursor`. */
  follow(id: ExecutionId, cursor: string): EventTail
  close(): void
}

export function createEventTails(redis: Redis, producerId: string, blockMs = BLOCK_MS): EventTails {
  const tails = new Set<Tail>()
  const wakeKey = keysOf(redis).wake + producerId
  let wakeCursor = '0-0'
  let connection: Redis | null = null
  let reading = false
  let wakeSent = false
  let wakeAgain = false

  const wake = (): void => {
    // The wake-up in flight may be read before this change, so another one is needed.
    wakeAgain = wakeSent
    if (wakeSent) return
    wakeSent = true
    redis
      .multi()
      .xadd(wakeKey, 'MAXLEN', 1, '*', 'w', '1')
      .pexpire(wakeKey, 60_000)
      .exec()
      .catch(() => undefined /* the read ends by itself after its block time */)
      .finally(() => {
        wakeSent = false
        if (wakeAgain) wake()
      })
  }

  const readLoop = async (): Promise<void> => {
    reading = true
    connection ??= duplicateOf(redis, {
      maxRetriesPerRequest: null,
      enableOfflineQueue: true,
      commandTimeout: undefined,
      connectionName: 'cofferdam-events',
    })
    connection.on('error', () => undefined)
    while (tails.size > 0) {
      const open = connection
      const cursors = cursorsOf(tails)
      const stuck = setTimeout(() => open.disconnect(true), blockMs + STUCK_MS)
      try {
        const found = await open.xread(
          'COUNT',
          BUFFER,
          'BLOCK',
          blockMs,
          'STREAMS',
          wakeKey,
          ...cursors.keys(),
          wakeCursor,
          ...cursors.values(),
        )
        for (const [key, entries] of found ?? []) {
          if (key === wakeKey) wakeCursor = entries.at(-1)?.[0] ?? wakeCursor
          else deliver(tails, key, entries)
        }
      } catch {
        // The connection was closed for good (close), or a read failed and is repeated.
        if (open.status === 'end') break
        await new Promise((resolve) => setTimeout(resolve, 100))
      } finally {
        clearTimeout(stuck)
      }
    }
    connection?.disconnect()
    connection = null
    reading = false
  }

  return {
    follow(id, cursor) {
      const tail: Tail = { key: keysOf(redis).events + id, cursor, buffer: [], notify: () => undefined }
      tails.add(tail)
      if (reading) wake()
      else void readLoop()
      return {
        async next(timeoutMs, signal) {
          if (tail.buffer.length === 0 && !signal.aborted) {
            const timeout = AbortSignal.timeout(timeoutMs)
            const either = AbortSignal.any([signal, timeout])
            await new Promise<void>((resolve) => {
              tail.notify = resolve
              either.addEventListener('abort', () => resolve(), { once: true })
            })
          }
          const wasFull = tail.buffer.length >= BUFFER
          const events = tail.buffer
          tail.buffer = []
          if (wasFull) wake()
          return events
        },
        [Symbol.dispose]() {
          tails.delete(tail)
          tail.notify()
          if (tails.size === 0 && reading) wake()
        },
      }
    },
    close() {
      tails.clear()
      connection?.disconnect()
    },
  }
}

/** One cursor per stream: the lowest of its tails with space in their buffers. */
function cursorsOf(tails: Set<Tail>): Map<string, string> {
  const cursors = new Map<string, string>()
  for (const { key, cursor, buffer } of tails) {
    if (buffer.length >= BUFFER) continue
    const known = cursors.get(key)
    if (known === undefined || isBefore(cursor, known)) cursors.set(key, cursor)
  }
  return cursors
}

type Entries = [id: string, fields: string[]][]

function deliver(tails: Set<Tail>, key: string, entries: Entries): void {
  for (const tail of tails) {
    if (tail.key !== key || tail.buffer.length >= BUFFER) continue
    for (const entry of entries) {
      if (!isBefore(tail.cursor, entry[0])) continue
      tail.cursor = entry[0]
      tail.buffer.push(storedEvent(entry))
    }
    tail.notify()
  }
}

/** Reads one stream entry: a single field `d` with the event's JSON. */
export function storedEvent([id, fields]: Entries[number]): StoredEvent {
  return { id, event: JSON.parse(fields[1] ?? 'null') as ExecutionEvent }
}

/** Order of stream ids `<ms>-<n>`. */
export function isBefore(a: string, b: string): boolean {
  const [aMs = 0, aN = 0] = a.split('-').map(Number)
  const [bMs = 0, bN = 0] = b.split('-').map(Number)
  return aMs < bMs || (aMs === bMs && aN < bN)
}
