/** Follows an execution's events over SSE, and resumes after the last event when the connection breaks. */
import type { StoredEvent, StreamOptions } from './client.ts'
import { parseServerEvents } from './event-stream.ts'
import { open, unreachable, type HttpTarget } from './http-call.ts'
import { pause } from './pause.ts'
import { createPatience, isTransient } from './repeat.ts'
import type { ExecutionEvent } from './wire.ts'

/** A connection that lasted this long counts as one that worked. Load balancers cut old connections. */
const LASTED_MS = 5000

/** Yields until `ended`, until the API has nothing more (204), or until the signal aborts. */
export async function* streamEvents(
  target: HttpTarget,
  id: string,
  { after, signal }: StreamOptions,
): AsyncGenerator<StoredEvent, void, undefined> {
  const patience = createPatience(target.retryForMs)
  const isAborted = (): boolean => signal?.aborted === true
  let last = after
  while (!isAborted()) {
    let failure: unknown
    let openedMs = Number.POSITIVE_INFINITY
    const onOpen = (): void => void (openedMs = performance.now())
    try {
      for await (const stored of connect(target, id, last, signal, onOpen)) {
        patience.reset()
        last = stored.id
        yield stored
        if (stored.event.type === 'ended') return
      }
      return
    } catch (error) {
      failure = error
    }
    if (isAborted()) return
    if (performance.now() - openedMs >= LASTED_MS) patience.reset()
    const ms = isTransient(failure) && !target.closed.aborted ? patience.next(failure) : null
    if (ms === null) throw failure
    await pause(ms, signal, target.closed).catch(() => undefined)
  }
}

/** One connection. Ends when the API has nothing more. Throws when the connection broke. */
async function* connect(
  target: HttpTarget,
  id: string,
  last: string | undefined,
  signal: AbortSignal | undefined,
  onOpen: () => void,
): AsyncGenerator<StoredEvent, void, undefined> {
  const answer = await open(target, {
    method: 'GET',
    path: `/executions/${id}/events`,
    headers: { accept: 'text/event-stream', ...(last === undefined ? {} : { 'last-event-id': last }) },
    signal,
  })
  onOpen()
  try {
    if (answer.status === 204) return
    for await (const { id: eventId, data } of parseServerEvents(answer.chunks()))
      yield { id: eventId, event: eventOf(target, data) }
  } finally {
    answer.end()
  }
  throw unreachable(target, new Error('the event stream ended before the execution did'))
}

function eventOf(target: HttpTarget, data: string): ExecutionEvent {
  try {
    return JSON.parse(data) as ExecutionEvent
  } catch (error) {
    throw unreachable(target, error)
  }
}
