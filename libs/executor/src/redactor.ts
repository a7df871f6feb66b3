/**
 * Redacts one byte stream as it flows. The result does not depend on how the stream was cut into chunks: a
 * position is decided when all bytes that its decision needs are there. Until then it is held back with
 * everything after it (at most 8 KiB, see WINDOW).
 *
 *   clean ──a rule matches──▶ covered ──its end, and the end of its tail──▶ clean
 *
 * Overlapping matches join into one cover, and each cover becomes one `<redacted>`.
 */
import { union, has, type ByteClass } from './byte-class.ts'
import { findAt, nextCandidate } from './find-secret.ts'
import type { RedactionRules } from './redaction-rules.ts'
import { KEY_BODY, type Match } from './secret-patterns.ts'

const REDACTED = '<redacted>'
const MARKER = Buffer.from(REDACTED)
/** Matchers look back at most this far, for example to distinguish `sk-…` from `task-…`. */
const LOOK_BEHIND = 3
/** Most programs print a few lines. */
const FIRST_BYTES = 1024
/** Shared, because most streams stay empty. */
const NOTHING = Buffer.alloc(0)

export interface Redactor {
  /**
   * Takes a chunk and returns what may be shown now. The result is valid until the second call after this
   * one, which reuses its memory.
   */
  push(chunk: Uint8Array): Uint8Array
  flush(): Uint8Array
  /** How many times `<redacted>` was written. */
  readonly hits: number
}

interface Cover {
  from: number
  to: number
  tail: ByteClass | null
  limit: number
  begun: boolean
  /** Inside a PEM private key, which a closing line ends. */
  inKey: boolean
}

export function createRedactor(rules: RedactionRules): Redactor {
  // Two buffers take turns, so large output creates no garbage: a call returns one, the next fills the other.
  let current: Buffer = NOTHING
  let other: Buffer = NOTHING
  // The end of the current buffer: LOOK_BEHIND bytes of context, then what is held back.
  let kept: Buffer = current
  let context = 0
  let cover: Cover | null = null
  let hits = 0

  function run(chunk: Uint8Array, final: boolean): Uint8Array {
    if (kept.length + chunk.length === 0) return chunk
    const bytes = joined(chunk)
    const end = bytes.length
    const parts: Uint8Array[] = []
    let cleanFrom = context
    let at = context
    while (at < end) {
      if (cover === null) at = nextCandidate(rules.table, bytes, at, end)
      const finding = findAt(rules, bytes, at, end, final)
      if (finding === 'more') break
      if (cover !== null && isOver(cover, at, bytes)) {
        cover = null
        cleanFrom = at
      }
      if (finding !== null) cover = entered(cover, finding)
      if (cover !== null && !cover.begun && at >= cover.from) {
        parts.push(bytes.subarray(cleanFrom, at), MARKER)
        cover.begun = true
        hits += 1
      }
      at += 1
    }
    if (cover === null || !cover.begun) parts.push(bytes.subarray(cleanFrom, at))
    keep(bytes, at)
    return parts.length === 1 ? (parts[0] ?? MARKER) : Buffer.concat(parts)
  }

  function joined(chunk: Uint8Array): Buffer {
    const size = kept.length + chunk.length
    if (other.length < size) other = Buffer.allocUnsafe(Math.max(size, FIRST_BYTES))
    kept.copy(other)
    other.set(chunk, kept.length)
    ;[current, other] = [other, current]
    return current.subarray(0, size)
  }

  function keep(bytes: Buffer, at: number): void {
    const from = Math.max(0, at - LOOK_BEHIND)
    kept = bytes.subarray(from)
    context = at - from
    if (cover !== null)
      cover = { ...cover, from: cover.from - from, to: cover.to - from, limit: cover.limit - from }
  }

  return {
    push: (chunk) => run(chunk, false),
    flush: () => run(NOTHING, true),
    get hits() {
      return hits
    },
  }
}

export function redactText(rules: RedactionRules, text: string): { text: string; hits: number } {
  const redactor = createRedactor(rules)
  const parts = [redactor.push(Buffer.from(text)), redactor.flush()]
  return { text: Buffer.concat(parts).toString(), hits: redactor.hits }
}

function isOver(cover: Cover, at: number, bytes: Uint8Array): boolean {
  if (at < cover.to) return false
  return cover.tail === null || at >= cover.limit || !has(cover.tail, bytes[at])
}

function entered(cover: Cover | null, match: Match): Cover | null {
  if (match.closesKey === true) {
    if (cover === null || !cover.inKey) return cover
    return { ...cover, to: Math.max(cover.to, match.to), tail: null, inKey: false }
  }
  const inKey = match.tail === KEY_BODY
  if (cover === null) return { ...match, begun: false, inKey }
  return {
    from: Math.min(cover.from, match.from),
    to: Math.max(cover.to, match.to),
    tail: union(cover.tail, match.tail),
    limit: Math.max(cover.limit, match.limit),
    begun: cover.begun,
    inKey: cover.inKey || inKey,
  }
}
