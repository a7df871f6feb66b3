/**
 * Looks for what the rules redact. A decision at a position depends only on the bytes from three before it to
 * WINDOW after it, never on how the bytes were cut into chunks.
 */
import {
  HASH_MASK,
  PIECE_BYTES,
  fingerprint,
  hashOf,
  mixed,
  startOf,
  type AnchoredPattern,
  type LiteralBucket,
  type RedactionRules,
} from './redaction-rules.ts'
import { MIN_SECRET_BYTES } from './secret-forms.ts'
import type { Finding } from './secret-patterns.ts'

/**
 * If more literals than this share their first three bytes, a possible start is held back without comparing
 * it.
 */
const EXACT_HOLD_LITERALS = 64
const NONE: readonly AnchoredPattern[] = []

/**
 * The first position at or after `from` where a rule may begin. If there is none, the first of the last two
 * positions, where a rule may begin with the next chunk.
 */
export function nextCandidate(
  table: Readonly<Uint8Array>,
  bytes: Uint8Array,
  from: number,
  end: number,
): number {
  if (end - from < 3) return from
  let hash = ((bytes[from] ?? 0) << 5) ^ (bytes[from + 1] ?? 0)
  for (let at = from + 2; at < end; at++) {
    hash = ((hash << 5) ^ (bytes[at] ?? 0)) & HASH_MASK
    if (table[hash] === 1) return at - 2
  }
  return end - 2
}

/** The secret that begins at `at`, by any literal or pattern. */
export function findAt(
  rules: RedactionRules,
  bytes: Buffer,
  at: number,
  end: number,
  final: boolean,
): Finding {
  if (end - at < 3) return !final && rules.beginnings.has(bytes.toString('latin1', at, end)) ? 'more' : null
  const [a, b, c] = [bytes[at] ?? 0, bytes[at + 1] ?? 0, bytes[at + 2] ?? 0]
  if (rules.table[hashOf(a, b, c)] !== 1) return null
  const start = startOf(a, b, c)
  const bucket = rules.literals.get(start)
  let found = bucket === undefined ? null : findLiteral(rules, bucket, bytes, at, end, final)
  for (const pattern of rules.patterns.get(start) ?? NONE) {
    if (found === 'more') return found
    found = join(found, findPattern(pattern, bytes, at, end, final))
  }
  return found
}

function findLiteral(
  rules: RedactionRules,
  bucket: LiteralBucket,
  bytes: Buffer,
  at: number,
  end: number,
  final: boolean,
): Finding {
  let to = longestLiteral(rules, bucket, bytes, at, end)
  const mayGrow = bucket.longest > end - at
  if (mayGrow && !final && isBeginning(bucket, bytes.toString('latin1', at, end))) return 'more'
  // The stream may end within a secret. Redact the part that was printed.
  if (mayGrow && final && end - at >= MIN_SECRET_BYTES) {
    const rest = bytes.toString('latin1', at, end)
    if ([...bucket.byLength.values()].some((set) => [...set].some((literal) => literal.startsWith(rest))))
      to = end
  }
  return to === at ? null : { from: at, to, tail: null, limit: to }
}

/** Where the longest literal that begins at `at` ends, or `at` when there is none. */
function longestLiteral(
  { fingerprints, salt }: RedactionRules,
  bucket: LiteralBucket,
  bytes: Buffer,
  at: number,
  end: number,
): number {
  let to = at
  let hash = salt
  const stop = Math.min(end, at + PIECE_BYTES)
  for (let next = at; next < stop;) {
    hash = mixed(hash, bytes[next] ?? 0)
    next += 1
    if (next - at < MIN_SECRET_BYTES || fingerprints[fingerprint(hash)] !== 1) continue
    if (bucket.byLength.get(next - at)?.has(bytes.toString('latin1', at, next)) === true) to = next
  }
  return to
}

function isBeginning(bucket: LiteralBucket, available: string): boolean {
  const literals = [...bucket.byLength].filter(([length]) => length > available.length)
  const count = literals.reduce((sum, [, set]) => sum + set.size, 0)
  if (count > EXACT_HOLD_LITERALS) return true
  return literals.some(([, set]) => [...set].some((literal) => literal.startsWith(available)))
}

/** The first three bytes are already compared. */
function findPattern(
  { pattern, anchor }: AnchoredPattern,
  bytes: Buffer,
  at: number,
  end: number,
  final: boolean,
): Finding {
  for (let n = 3; n < anchor.length; n++) {
    if (at + n >= end) return final ? null : 'more'
    const byte = bytes[at + n] ?? 0
    if ((pattern.ignoreCase === true ? lowerCase(byte) : byte) !== anchor[n]) return null
  }
  return pattern.match(bytes, at, end, final)
}

const lowerCase = (byte: number): number => (byte >= 0x41 && byte <= 0x5a ? byte | 0x20 : byte)

/** Joins two findings at one position into one that covers both. */
function join(a: Finding, b: Finding): Finding {
  if (a === 'more' || b === 'more') return 'more'
  if (a === null) return b
  if (b === null) return a
  return {
    from: Math.min(a.from, b.from),
    to: Math.max(a.to, b.to),
    tail: b.tail ?? a.tail,
    limit: Math.max(a.limit, b.limit),
  }
}
