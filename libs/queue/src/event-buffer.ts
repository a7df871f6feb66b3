/**
 * Collects the live events of one attempt and appends them in order. It joins neighbouring output of one
 * stream up to 16 KiB per entry, and sends the events of 20 ms in one call. A program that prints faster than
 * Redis takes the output is held back. If Redis takes nothing for 2 s, programs are no longer held back.
 * Output beyond a bound is then dropped from the live stream, never from the result, and a notice says so.
 */
import type { ExecutionEvent } from '@cofferdam/contract'
import { QUEUE_BOUNDS } from './bounds.ts'

type Output = Extract<ExecutionEvent, { type: 'output' }>

export interface EventBuffer {
  emit(event: ExecutionEvent): void
  /**
   * Undefined when the caller may emit more output now. Otherwise the caller waits for the promise, which
   * never rejects.
   */
  room(): Promise<void> | undefined
  /** Resolves when every earlier event was appended or has failed. Never rejects. */
  flush(): Promise<void>
}

/**
 * `append` gets events as JSON, the number of the call (1, 2, …) and how many of the newest entries the
 * stream may keep. Failed appends are passed to `onError`.
 */
export function createEventBuffer(
  append: (events: string[], call: number, keep: number) => Promise<void>,
  onError: (error: unknown) => void,
): EventBuffer {
  const pending: ExecutionEvent[] = []
  let pendingBytes = 0
  let dropped = false
  /** Redis took nothing for so long that programs are no longer held back. */
  let isStuck = false
  let calls = 0
  const keepWith = createStreamBound()
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
    // Events that arrive during a call are sent with the next one.
    appended = appended.then(async () => {
      while (pending.length > 0) {
        // Encode one part at a time. Otherwise a large output would be in memory three times.
        const part = pending.splice(0, QUEUE_BOUNDS.eventCall)
        pendingBytes -= part.reduce((sum, event) => sum + textBytes(event), 0)
        dropped = false
        calls += 1
        const encoded = part.map((event) => JSON.stringify(event))
        try {
          await append(encoded, calls, keepWith(encoded))
          isStuck = false
        } catch (error) {
          onError(error)
        }
      }
    })
    return appended
  }

  /** Resolves when everything was appended or has failed, or when Redis counts as stuck. */
  const untilAppended = (): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const patience = setTimeout(() => {
      isStuck = true
      resolve()
    }, QUEUE_BOUNDS.eventHoldMs)
    void flushNow().then(() => {
      clearTimeout(patience)
      resolve()
    })
    return promise
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
    room: () => (pendingBytes > QUEUE_BOUNDS.eventHoldBytes && !isStuck ? untilAppended() : undefined),
    flush: flushNow,
  }
}

const textBytes = (event: ExecutionEvent): number =>
  event.type === 'output' ? Buffer.byteLength(event.text) : 0

function canJoin(last: Output, next: Output): boolean {
  // Three bytes per UTF-16 unit is an upper bound. Count exactly only near the limit.
  return (
    last.stream === next.stream &&
    ((last.text.length + next.text.length) * 3 <= QUEUE_BOUNDS.eventBytes ||
      Buffer.byteLength(last.text) + Buffer.byteLength(next.text) <= QUEUE_BOUNDS.eventBytes)
  )
}

/** Cuts text into pieces of at most `eventBytes` without splitting a UTF-8 character. */
function pieces(text: string, bytes: number): string[] {
  if (bytes <= QUEUE_BOUNDS.eventBytes) return [text]
  const cut: string[] = []
  if (bytes === text.length) {
    // Most large outputs are ASCII, and slices of a string cost nothing.
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

/**
 * Turns the bound on bytes of a live stream into a number of entries. The returned function gets the entries
 * of an append and returns how many of the newest entries, including these, the stream may keep. Entries of
 * earlier attempts use at most half of the bytes and are trimmed first (append.lua).
 */
export function createStreamBound(): (entries: readonly string[]) => number {
  // Bytes of the newest entries, oldest first; at most `eventEntries` numbers.
  const sizes: number[] = []
  let bytes = 0
  let isFull = false
  return (entries) => {
    for (const entry of entries) {
      const size = Buffer.byteLength(entry)
      sizes.push(size)
      bytes += size
    }
    while (bytes > QUEUE_BOUNDS.eventStreamBytes || sizes.length > QUEUE_BOUNDS.eventEntries) {
      isFull ||= bytes > QUEUE_BOUNDS.eventStreamBytes
      bytes -= sizes.shift() ?? 0
    }
    // `sizes` lacks entries that scripts append (`queued`, `started`, notices). Keep these too until the
    // bound on bytes is reached.
    return isFull ? sizes.length : QUEUE_BOUNDS.eventEntries
  }
}
