/**
 * What to redact, compiled for a scan that looks at each byte once: every rule begins with three known bytes, and a
 * 32 KiB table over a hash of three bytes says for almost every position that no rule can begin there.
 */
import { randomInt } from 'node:crypto'
import { MIN_SECRET_BYTES, secretLiterals } from './secret-forms.ts'
import { SECRET_PATTERNS, type Finding, type SecretPattern } from './secret-patterns.ts'

/**
 * Literals are looked up by hash in pieces of at most this many bytes, so a position costs one short pass however
 * many secrets there are and however alike they begin (a program chooses both its secrets and its output). A longer
 * literal is covered by overlapping pieces; a piece that appears alone is a leak of 32 bytes and is redacted as well.
 */
const PIECE_BYTES = 32
const PIECE_STRIDE = 24
/** Above this many literals with the same first three bytes, a possible beginning is held back without a look. */
const EXACT_HOLD_LITERALS = 64
/** 15 bits: the hash of three bytes forgets the fourth by itself, and the table fits into the L1 cache. */
const HASH_MASK = 0x7fff

export interface RedactionRules {
  readonly table: Readonly<Uint8Array>
  /** First one and first two bytes of all rules: what may begin at the end of a chunk. */
  readonly beginnings: ReadonlySet<string>
  readonly patterns: ReadonlyMap<string, readonly SecretPattern[]>
  readonly literals: ReadonlyMap<string, LiteralBucket>
  /** Hashes of all literals, for a cheap no. */
  readonly fingerprints: Readonly<Uint8Array>
  /** Start of those hashes: random, so that nobody can choose literals that collide. No result depends on it. */
  readonly salt: number
}

/** The literals that share their first three bytes, by length. */
type LiteralBucket = Map<number, Set<string>>

const FINGERPRINT_MASK = 0xffff

/** The patterns, compiled once: they are the same for everybody. */
const PATTERN_RULES = compilePatterns()

/** Compiles the rules of one execution; without secrets these are the patterns alone. */
export function compileRules(
  tenantValues: readonly string[],
  env: Readonly<Record<string, string>>,
): RedactionRules {
  const found = secretLiterals(tenantValues, env)
  if (found.size === 0) return PATTERN_RULES
  const table = PATTERN_RULES.table.slice()
  const beginnings = new Set(PATTERN_RULES.beginnings)
  const literals = new Map<string, LiteralBucket>()
  const fingerprints = new Uint8Array(FINGERPRINT_MASK + 1)
  const salt = randomInt(2 ** 31)
  for (const literal of found)
    for (const piece of piecesOf(literal)) {
      const start = piece.slice(0, 3)
      register(table, beginnings, start)
      const bucket = literals.get(start) ?? new Map<number, Set<string>>()
      literals.set(start, bucket)
      bucket.set(piece.length, (bucket.get(piece.length) ?? new Set()).add(piece))
      fingerprints[fingerprint(Buffer.from(piece, 'latin1').reduce(mixed, salt))] = 1
    }
  return { ...PATTERN_RULES, table, beginnings, literals, fingerprints, salt }
}

function compilePatterns(): RedactionRules {
  const table = new Uint8Array(HASH_MASK + 1)
  const beginnings = new Set<string>()
  const patterns = new Map<string, SecretPattern[]>()
  for (const pattern of SECRET_PATTERNS)
    for (const start of startsOf(pattern)) {
      register(table, beginnings, start)
      patterns.set(start, [...(patterns.get(start) ?? []), pattern])
    }
  return { table, beginnings, patterns, literals: new Map(), fingerprints: new Uint8Array(0), salt: 0 }
}

/** `start` is three characters of latin1. */
function register(table: Uint8Array, beginnings: Set<string>, start: string): void {
  table[hashOf(start.charCodeAt(0), start.charCodeAt(1), start.charCodeAt(2))] = 1
  beginnings.add(start.slice(0, 1)).add(start.slice(0, 2))
}

function hashOf(a: number, b: number, c: number): number {
  return ((a << 10) ^ (b << 5) ^ c) & HASH_MASK
}

function startsOf({ anchor, ignoreCase }: SecretPattern): string[] {
  const start = anchor.slice(0, 3)
  if (ignoreCase !== true) return [start]
  return Array.from(start).reduce<string[]>(
    (starts, char) => starts.flatMap((s) => [s + char.toLowerCase(), s + char.toUpperCase()]),
    [''],
  )
}

function* piecesOf(literal: string): Generator<string> {
  for (let at = 0; at + PIECE_BYTES < literal.length; at += PIECE_STRIDE)
    yield literal.slice(at, at + PIECE_BYTES)
  yield literal.slice(-PIECE_BYTES)
}

/** The first position at or after `from` where a rule may begin, or the last two positions if there is none. */
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

/** One step of FNV-1a. */
function mixed(hash: number, byte: number): number {
  return Math.imul(hash ^ byte, 0x01000193)
}

function fingerprint(hash: number): number {
  return (hash ^ (hash >>> 16)) & FINGERPRINT_MASK
}

/** What begins at `at`, literals and patterns joined. */
export function findAt(
  rules: RedactionRules,
  bytes: Buffer,
  at: number,
  end: number,
  final: boolean,
): Finding {
  if (end - at < 3) return !final && rules.beginnings.has(bytes.toString('latin1', at, end)) ? 'more' : null
  if (rules.table[hashOf(bytes[at] ?? 0, bytes[at + 1] ?? 0, bytes[at + 2] ?? 0)] !== 1) return null
  const start = bytes.toString('latin1', at, at + 3)
  const bucket = rules.literals.get(start)
  let found = bucket === undefined ? null : findLiteral(rules, bucket, bytes, at, end, final)
  for (const pattern of rules.patterns.get(start) ?? []) {
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
  const mayGrow = Math.max(...bucket.keys()) > end - at
  if (mayGrow && !final && isBeginning(bucket, bytes.toString('latin1', at, end))) return 'more'
  // A secret that the end of the stream cuts off is still most of a secret.
  if (mayGrow && final && end - at >= MIN_SECRET_BYTES) {
    const rest = bytes.toString('latin1', at, end)
    if ([...bucket.values()].some((set) => [...set].some((literal) => literal.startsWith(rest)))) to = end
  }
  return to === at ? null : { from: at, to, tail: null, limit: to }
}

/** Where the longest literal that begins at `at` ends; `at` when there is none. */
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
    if (bucket.get(next - at)?.has(bytes.toString('latin1', at, next)) === true) to = next
  }
  return to
}

function isBeginning(bucket: LiteralBucket, available: string): boolean {
  const literals = [...bucket].filter(([length]) => length > available.length)
  const count = literals.reduce((sum, [, set]) => sum + set.size, 0)
  if (count > EXACT_HOLD_LITERALS) return true
  return literals.some(([, set]) => [...set].some((literal) => literal.startsWith(available)))
}

function findPattern(
  pattern: SecretPattern,
  bytes: Buffer,
  at: number,
  end: number,
  final: boolean,
): Finding {
  const text = bytes.toString('latin1', at, Math.min(end, at + pattern.anchor.length))
  const seen = pattern.ignoreCase === true ? text.toLowerCase() : text
  if (!pattern.anchor.startsWith(seen)) return null
  if (seen.length < pattern.anchor.length) return final ? null : 'more'
  return pattern.match(bytes, at, end, final)
}

/** Two findings at one position: the wider cover. */
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
