/**
 * One output stream of a program: count raw bytes → bound → redact → (live text, visible window, full copy).
 * Works synchronously on arrival, so nothing piles up if a backend does not wait. Only the full copy is
 * asynchronous, and it has its own bound.
 */
import type { OutputView } from '@cofferdam/contract'
import { createByteWindow } from './byte-window.ts'
import type { RedactionRules } from './redaction-rules.ts'
import { createRedactor } from './redactor.ts'
import { shownText } from './shown-text.ts'
import type { Spill } from './spill.ts'

/**
 * Bytes processed at once, to bound the buffers of redactor and decoder. As long as the longest frame from
 * the guest agent.
 */
const PIECE_BYTES = 64 * 1024

export interface OutputStream {
  readonly rawBytes: number
  readonly hits: number
  /** Resolves when the next chunk may come. Never rejects. */
  push(chunk: Uint8Array): Promise<void>
  /** Ends the stream. Later chunks are ignored. */
  close(): void
  /** The visible text so far, for the failure reason. Call it after close. */
  shown(): string
  /** Completes the full copy. `rawBytes` is how much the backend says was written, even beyond the bound. */
  finish(rawBytes: number): Promise<OutputView>
  abandon(): Promise<void>
}

export interface OutputStreamOptions {
  rules: RedactionRules
  /** Longest visible text, bytes. */
  limit: number
  /** Which end of the stream stays visible. */
  keep: 'head' | 'tail'
  /** Raw bytes that are read. The backend was told the same bound, but may ignore it. */
  maxRawBytes: number
  beginSpill: () => Spill
  /** If it returns a promise, the program is held back until that resolves. */
  onText: (text: string) => void | Promise<void>
}

export function createOutputStream(options: OutputStreamOptions): OutputStream {
  const { limit, keep, maxRawBytes, beginSpill, onText } = options
  const redactor = createRedactor(options.rules)
  const window = createByteWindow(limit, keep)
  // Holds back an incomplete character until its rest comes. A byte order mark is ordinary text.
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  let spill: Spill | null = null
  let rawBytes = 0
  let closed = false

  function accept(redacted: Uint8Array): Promise<unknown> {
    // Until now the window held the whole stream, so the full copy starts with its content.
    if (spill === null && window.total + redacted.length > limit) {
      spill = beginSpill()
      void spill.write(window.bytes())
    }
    window.add(redacted)
    const text = decoder.decode(redacted, { stream: true })
    const shown = text === '' ? undefined : onText(text)
    return Promise.all([shown, spill?.write(redacted)])
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
      // No await between pieces, so that chunks keep their order even if the caller does not wait.
      const written: Promise<unknown>[] = []
      for (let at = 0; at < kept.length; at += PIECE_BYTES)
        written.push(accept(redactor.push(kept.subarray(at, at + PIECE_BYTES))))
      await Promise.all(written)
    },
    close() {
      if (closed) return
      closed = true
      void accept(redactor.flush())
      const rest = decoder.decode()
      if (rest !== '') void onText(rest)
    },
    shown: () => shownText(window.bytes(), limit, keep, window.total > limit).text,
    async finish(writtenBytes) {
      const { text, whole, exact } = shownText(window.bytes(), limit, keep, window.total > limit)
      const truncated = !whole || Math.max(rawBytes, writtenBytes) > Math.min(rawBytes, maxRawBytes)
      // Output that is not valid UTF-8 also gets a full copy, because the visible text cannot show its bytes.
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
