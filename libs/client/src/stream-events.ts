/** Follows an execution's events over SSE, and resumes after the last event when the connection breaks. */
import { setTimeout as pause } from 'node:timers/promises'
import { executionEventSchema, type ExecutionId, type StoredEvent } from '@cofferdam/contract'
import type { StreamOptions } from './client.ts'
import { parseServerEvents } from './event-stream.ts'
import { isTransient, send, unreachable, type HttpTarget } from './http-call.ts'

/** Pause before a reconnect. It doubles from the first to the last value while nothing arrives. */
const PAUSE_MS = { first: 100, last: 2000 }
/** Consecutive failures after which the API counts as down. With the pauses above, about 20 s. */
const FAILURES_MAX = 12
/** The API sends a comment every 15 s, so a longer silence means a dead connection. */
const SILENCE_MS = 45_000

/** Yields until `ended`, until the API has nothing more (204), or until the signal aborts. */
export async function* streamEvents(
  target: HttpTarget,
  id: ExecutionId,
  { after, signal }: StreamOptions,
): AsyncGenerator<StoredEvent, void, undefined> {
  let last = after
  let failures = 0
  const isAborted = (): boolean => signal?.aborted === true
  while (!isAborted()) {
    try {
      for await (const stored of connect(target, id, last, signal)) {
        failures = 0
        last = stored.id
        yield stored
        if (stored.event.type === 'ended') return
      }
      return
    } catch (error) {
      if (isAborted()) return
      failures += 1
      if (!isTransient(error) || failures >= FAILURES_MAX || target.closed.aborted) throw error
    }
    const ms = Math.min(PAUSE_MS.last, PAUSE_MS.first * 2 ** (failures - 1))
    await pause(ms, undefined, signal === undefined ? {} : { signal }).catch(() => undefined)
  }
}

/** One connection. Ends when the API has nothing more. Throws when the connection broke. */
async function* connect(
  target: HttpTarget,
  id: ExecutionId,
  last: string | undefined,
  signal: AbortSignal | undefined,
): AsyncGenerator<StoredEvent, void, undefined> {
  const silence = new AbortController()
  const given = [silence.signal, ...(signal === undefined ? [] : [signal])]
  const response = await send(target, {
    method: 'GET',
    path: `/executions/${id}/events`,
    headers: { accept: 'text/event-stream', ...(last === undefined ? {} : { 'last-event-id': last }) },
    signal: AbortSignal.any(given),
  })
  if (response.status === 204 || response.body === null) return
  let timer = setTimeout(() => silence.abort(), SILENCE_MS)
  const heard = async function* (body: AsyncIterable<Uint8Array>) {
    for await (const chunk of body) {
      clearTimeout(timer)
      timer = setTimeout(() => silence.abort(), SILENCE_MS)
      yield chunk
    }
  }
  try {
    for await (const { id: eventId, data } of parseServerEvents(heard(response.body)))
      yield { id: eventId, event: executionEventSchema.parse(JSON.parse(data)) }
  } catch (error) {
    throw unreachable(target, error)
  } finally {
    clearTimeout(timer)
  }
  throw unreachable(target, new Error('the event stream ended before the execution did'))
}
