/**
 * Collects the live events of one attempt and appends them in order: neighbouring output of one stream is joined
 * up to 16 KiB per entry, and everything of 20 ms goes in one call. Bounded: while Redis is away, output beyond
 * the bound is dropped from the live stream (never from the result) and a notice says so.
 */
import type { ExecutionEvent } from '@cofferdam/contract'
import { QUEUE_BOUNDS } from './bounds.ts'
import { createStreamRoom } from './stream-room.ts'

type Output = Extract<ExecutionEvent, { type: 'output' }>

export interface EventBuffer {
  emit(event: ExecutionEvent): void
  /** Resolves when all that was emitted before is appended, or could not be. Never rejects. */
  flush(): Promise<void>
}

/**
 * `append` gets events as JSON, the number of the call (1, 2, …) and how many of the newest entries the stream may keep with them;
 * `onError` hears of appends that failed.
 */
export function createEventBuffer(
  append: (events: string[], call: number, keep: number) => Promise<void>,
  onError: (error: unknown) => void,
): EventBuffer {
  const pending: ExecutionEvent[] = []
  let pendingBytes = 0
  let dropped = false
  let calls = 0
  const room = createStreamRoom()
  let timer: NodeJS.Timeout | null = null
  let appended: Promise<void> = Promise.resolve()

  const push = (event: ExecutionEvent): void => {
    const last = pending.at(-1)
    if (event.type === 'output' && last?.type === 'output' && canJoin(last, event))
      pending[pending.length - 1] = { ...last, text: last.text + event.text }
    else pending.push(event)
  }

  const flushNow = (): Promise<void> => {
    if (timer !== null) clearTimeout(timer)
    timer = null
    if (pending.length === 0) return appended
    // While a call is under way, what comes meanwhile is collected and goes with the next one.
    appended = appended.then(async () => {
      while (pending.length > 0) {
        // In parts, each encoded when its turn comes: a flood would else be in memory three times over.
        const part = pending.splice(0, QUEUE_BOUNDS.eventCall)
        pendingBytes -= part.reduce((sum, event) => sum + textBytes(event), 0)
        dropped = false
        calls += 1
        const encoded = part.map((event) => JSON.stringify(event))
        try {
          await append(encoded, calls, room.keepWith(encoded))
        } catch (error) {
          onError(error)
        }
      }
    })
    return appended
  }

  return {
    emit(event) {
      if (event.type === 'output') {
        const bytes = Buffer.byteLength(event.text)
        if (pendingBytes + bytes > QUEUE_BOUNDS.eventBufferBytes) {
          if (!dropped)
            pending.push({
              type: 'notice',
              at_ms: event.at_ms,
              message: 'Live output was dropped here; the result has it.',
            })
          dropped = true
          return
        }
        pendingBytes += bytes
        for (const text of pieces(event.text, bytes)) push({ ...event, text })
      } else push(event)
      timer ??= setTimeout(() => void flushNow(), QUEUE_BOUNDS.eventFlushMs)
    },
    flush: flushNow,
  }
}

const textBytes = (event: ExecutionEvent): number =>
  event.type === 'output' ? Buffer.byteLength(event.text) : 0

function canJoin(last: Output, next: Output): boolean {
  // UTF-16 units times 3 bound the UTF-8 bytes from above; exact counting only near the bound.
  return (
    last.stream === next.stream &&
    ((last.text.length + next.text.length) * 3 <= QUEUE_BOUNDS.eventBytes ||
      Buffer.byteLength(last.text) + Buffer.byteLength(next.text) <= QUEUE_BOUNDS.eventBytes)
  )
}

/** Cuts text into pieces of at most `eventBytes` at UTF-8 edges. */
function pieces(text: string, bytes: number): string[] {
  if (bytes <= QUEUE_BOUNDS.eventBytes) return [text]
  const cut: string[] = []
  if (bytes === text.length) {
    // ASCII, as most floods are: slices of a string cost nothing.
    for (let start = 0; start < bytes; start += QUEUE_BOUNDS.eventBytes)
      cut.push(text.slice(start, start + QUEUE_BOUNDS.eventBytes))
    return cut
  }
  const encoded = Buffer.from(text)
  for (let start = 0; start < encoded.length;) {
    let end = Math.min(encoded.length, start + QUEUE_BOUNDS.eventBytes)
    while (end < encoded.length && ((encoded[end] ?? 0) & 0xc0) === 0x80) end -= 1
    cut.push(encoded.toString('utf8', start, end))
    start = end
  }
  return cut
}
