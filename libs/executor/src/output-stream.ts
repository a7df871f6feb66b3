/**
 * One output stream of a program, in this order: count raw bytes → bound → redact → (live text, visible window, full
 * copy). Works synchronously on arrival, so that nothing piles up when a backend does not wait; only the full copy is
 * asynchronous, and bounded by itself.
 */
import type { OutputView } from '@cofferdam/contract'
import { createByteWindow } from './byte-window.ts'
import type { RedactionRules } from './redaction-rules.ts'
import { createRedactor } from './redactor.ts'
import { shownText } from './shown-text.ts'
import type { Spill } from './spill.ts'

/** Looked at in one go, whatever a backend hands over: bounds the buffers of redactor and decoder. As long as a frame of the agent. */
const PIECE_BYTES = 64 * 1024

export interface OutputStream {
  readonly rawBytes: number
  readonly hits: number
  /** Resolves when the stream may go on. Never rejects. */
  push(chunk: Uint8Array): Promise<void>
  /** Ends the stream; later chunks are ignored. */
  close(): void
  /** The visible text of what came so far, for the failure reason. Call after close. */
  shown(): string
  /** Completes the full copy. `rawBytes` is what the backend says was written, also beyond the bound. */
  finish(rawBytes: number): Promise<OutputView>
  abandon(): Promise<void>
}

export interface OutputStreamOptions {
  rules: RedactionRules
  /** Longest visible text, bytes. */
  limit: number
  /** Which end of the stream stays visible. */
  keep: 'head' | 'tail'
  /** Raw bytes that are looked at; the backend was told the same, and may not keep to it. */
  maxRawBytes: number
  beginSpill: () => Spill
  onText: (text: string) => void
}

/** Creates the pipeline of one stream. */
export function createOutputStream(options: OutputStreamOptions): OutputStream {
  const { limit, keep, maxRawBytes, beginSpill, onText } = options
  const redactor = createRedactor(options.rules)
  const window = createByteWindow(limit, keep)
  // Keeps an incomplete character back until its rest comes; a byte order mark is text like any other.
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  let spill: Spill | null = null
  let rawBytes = 0
  let closed = false

  function accept(redacted: Uint8Array): Promise<void> {
    // Until the limit is passed the window holds all of the stream, and is the beginning of the full copy.
    if (spill === null && window.total + redacted.length > limit) {
      spill = beginSpill()
      void spill.write(window.bytes())
    }
    window.add(redacted)
    const text = decoder.decode(redacted, { stream: true })
    if (text !== '') onText(text)
    return spill?.write(redacted) ?? Promise.resolve()
  }

  return {
    get rawBytes() {
      return rawBytes
    },
    get hits() {
      return redactor.hits
    },
    async push(chunk) {
      if (closed) return
      const kept = chunk.subarray(0, Math.max(0, maxRawBytes - rawBytes))
      rawBytes += chunk.length
      // All pieces at once: the order of chunks is that of calls, also when nobody waits for them.
      const written: Promise<void>[] = []
      for (let at = 0; at < kept.length; at += PIECE_BYTES)
        written.push(accept(redactor.push(kept.subarray(at, at + PIECE_BYTES))))
      await Promise.all(written)
    },
    close() {
      if (closed) return
      closed = true
      void accept(redactor.flush())
      const rest = decoder.decode()
      if (rest !== '') onText(rest)
    },
    shown: () => shownText(window.bytes(), limit, keep, window.total > limit).text,
    async finish(writtenBytes) {
      const { text, whole, exact } = shownText(window.bytes(), limit, keep, window.total > limit)
      const truncated = !whole || Math.max(rawBytes, writtenBytes) > Math.min(rawBytes, maxRawBytes)
      // Also what is no text: who fetches the full copy gets the bytes.
      if ((truncated || !exact) && spill === null) {
        spill = beginSpill()
        void spill.write(window.bytes())
      }
      const ref = spill === null ? null : await spill.commit()
      return { text, bytes: Math.max(rawBytes, writtenBytes), truncated, ref }
    },
    async abandon() {
      closed = true
      await spill?.abort()
    },
  }
}
