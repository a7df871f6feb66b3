/**
 * The event stream of a session: server-sent events from now on, without the history, and pings between them.
 * Each frame carries an `event:` line, because the SDK skips frames without one (core/streaming.ts).
 */
import type { ServerResponse } from 'node:http'
import type { SessionEvent } from './event-log.ts'
import type { Fault } from './faults.ts'
import type { Session } from './session.ts'

/** A reader that falls behind by more is cut off. */
const BACKLOG_BYTES = 64 * 1024 * 1024

const PING = 'event: ping\ndata: {"type": "ping"}\n\n'

const frame = (event: SessionEvent): string => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`

/**
 * Answers with the stream. It ends when the client goes or falls behind, when the session is deleted, or by a
 * `cut`.
 */
export function streamEvents(
  session: Session,
  response: ServerResponse,
  { faults, pingMs }: { faults: readonly Fault[]; pingMs: number },
): void {
  const cut = faults.find((fault) => fault.kind === 'cut')
  const isReplayed = faults.some(({ kind }) => kind === 'replay')
  const isReordered = faults.some(({ kind }) => kind === 'reorder')
  let left = cut === undefined ? Number.POSITIVE_INFINITY : cut.after_events
  const breakOff = (): void => void response.destroy()

  const write = (event: SessionEvent): void => {
    if (left <= 0 || response.destroyed || response.writableEnded) return
    left -= 1
    // The client must still receive what came before the cut.
    response.write(frame(event), () => {
      if (left <= 0) breakOff()
    })
  }
  const send = (batch: readonly SessionEvent[]): void => {
    for (const event of isReplayed ? batch.flatMap((one) => [one, one]) : batch) write(event)
    if (batch.some(({ type }) => type === 'session.deleted')) response.end()
    else if (response.writableLength > BACKLOG_BYTES) breakOff()
  }

  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' })
  response.write(PING, () => {
    if (left <= 0) breakOff()
  })
  if (isReplayed) send(session.events)
  const unsubscribe = session.subscribe((batch) => send(isReordered ? batch.toReversed() : batch))
  const pings = setInterval(() => {
    if (!response.writableEnded) response.write(PING)
  }, pingMs).unref()
  response.once('close', () => {
    clearInterval(pings)
    unsubscribe()
  })
}
