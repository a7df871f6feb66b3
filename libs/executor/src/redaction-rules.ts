/**
 * What to redact, compiled for a scan that looks at each byte once: every rule begins with three known bytes,
 * and a 32 KiB table over a hash of three bytes tells for almost every position that no rule can begin there.
 */
import { randomInt } from 'node:crypto'
import { secretLiterals } from './secret-forms.ts'
import { SECRET_PATTERNS, type SecretPattern } from './secret-patterns.ts'

/**
 * Literals are cut into pieces of at most this many bytes, which are looked up by hash. So each position
 * costs one short pass, even if a program chooses many similar secrets and prints them. The pieces of a
 * longer literal overlap. A piece that is printed alone is redacted too, because it would leak 32 bytes of
 * the secret.
 */
export const PIECE_BYTES = 32
const PIECE_STRIDE = 24
/** 15 bits: so the rolling hash covers just the last three bytes, and the table fits into the L1 cache. */
export const HASH_MASK = 0x7fff

export interface RedactionRules {
  readonly table: Readonly<Uint8Array>
  /** The first byte, and the first two bytes, of every rule. A chunk may end after them. */
  readonly beginnings: ReadonlySet<string>
  /**
   * Keyed by the first three bytes as one number (`startOf`). Numbers make lookups cheap. A line of dashes
   * causes one lookup per byte, because PEM keys begin with dashes.
   */
  readonly patterns: ReadonlyMap<number, readonly AnchoredPattern[]>
  readonly literals: ReadonlyMap<number, LiteralBucket>
  /** Hashes of all literals, to reject most positions cheaply. */
  readonly fingerprints: Readonly<Uint8Array>
  /** Random start of those hashes, so that nobody can choose colliding literals. No result depends on it. */
  readonly salt: number
}

/** The literals that share their first three bytes. */
export interface LiteralBucket {
  readonly byLength: Map<number, Set<string>>
  longest: number
}

export interface AnchoredPattern {
  readonly pattern: SecretPattern
  readonly anchor: Uint8Array
}

const FINGERPRINT_MASK = 0xffff

/** Compiled once, because they are the same for all executions. */
const PATTERN_RULES = compilePatterns()

/** Compiles the rules of one execution. Without secrets these are the patterns alone. */
export function compileRules(
  tenantValues: readonly string[],
  env: Readonly<Record<string, string>>,
): RedactionRules {
  const found = secretLiterals(tenantValues, env)
  if (found.size === 0) return PATTERN_RULES
  const table = PATTERN_RULES.table.slice()
  const beginnings = new Set(PATTERN_RULES.beginnings)
  const literals = new Map<number, LiteralBucket>()
  const fingerprints = new Uint8Array(FINGERPRINT_MASK + 1)
  const salt = randomInt(2 ** 31)
  for (const literal of found)
    for (const piece of piecesOf(literal)) {
      const start = piece.slice(0, 3)
      register(table, beginnings, start)
      const bucket = literals.get(keyOf(start)) ?? { byLength: new Map<number, Set<string>>(), longest: 0 }
      literals.set(keyOf(start), bucket)
      bucket.byLength.set(piece.length, (bucket.byLength.get(piece.length) ?? new Set()).add(piece))
      bucket.longest = Math.max(bucket.longest, piece.length)
      fingerprints[fingerprint(Buffer.from(piece, 'latin1').reduce(mixed, salt))] = 1
    }
  return { ...PATTERN_RULES, table, beginnings, literals, fingerprints, salt }
}

function compilePatterns(): RedactionRules {
  const table = new Uint8Array(HASH_MASK + 1)
  const beginnings = new Set<string>()
  const patterns = new Map<number, AnchoredPattern[]>()
  for (const pattern of SECRET_PATTERNS) {
    const anchored = { pattern, anchor: Buffer.from(pattern.anchor, 'latin1') }
    for (const start of startsOf(pattern)) {
      register(table, beginnings, start)
      patterns.set(keyOf(start), [...(patterns.get(keyOf(start)) ?? []), anchored])
    }
  }
  return { table, beginnings, patterns, literals: new Map(), fingerprints: new Uint8Array(0), salt: 0 }
}

/** `start` is three characters of latin1. */
function register(table: Uint8Array, beginnings: Set<string>, start: string): void {
  table[hashOf(start.charCodeAt(0), start.charCodeAt(1), start.charCodeAt(2))] = 1
  beginnings.add(start.slice(0, 1)).add(start.slice(0, 2))
}

export function startOf(a: number, b: number, c: number): number {
  return (a << 16) | (b << 8) | c
}

function keyOf(start: string): number {
  return startOf(start.charCodeAt(0), start.charCodeAt(1), start.charCodeAt(2))
}

export function hashOf(a: number, b: number, c: number): number {
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

export function mixed(hash: number, byte: number): number {
  return Math.imul(hash ^ byte, 0x01000193)
}

export function fingerprint(hash: number): number {
  return (hash ^ (hash >>> 16)) & FINGERPRINT_MASK
}
