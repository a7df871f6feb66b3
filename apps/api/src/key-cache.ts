/**
 * Caches for a few seconds what Postgres said about a key, so that a busy client costs one lookup per TTL.
 *
 *   presented key ─► SHA-256 ─► cached? ─► answer
 *                                no ─► lookup in flight? ─► the same promise
 *                                        no ─► worked before, or its address may guess? ─► store.keys.verify
 *
 * Only hashes are kept and compared, so neither memory nor timing reveals a key. A revoked key works for at
 * most KEY_TTL_MS in other processes. In this one, `forget` ends it at once.
 */
import { createHash } from 'node:crypto'
import { isIPv6 } from 'node:net'
import { CofferdamError, type ApiKeyScope } from '@cofferdam/contract'

/** How long a verified key stays valid after it was revoked elsewhere. */
const KEY_TTL_MS = 5000

/** Valid keys in the cache, below 1 MiB in total. The least recently used one is evicted first. */
const MAX_KEYS = 4096

/** Refused keys have a map of their own, so that a flood of guesses cannot evict valid keys. */
const MAX_REFUSED = 1024

export interface Caller {
  keyId: string
  scope: ApiKeyScope
  /** Executions that come with the key run under this template. Null: under the one in the request. */
  templateId: string | null
}

export interface KeyCache {
  /**
   * Returns who presents `key`; null when the key is not valid. Throws `store_unavailable`. Throws
   * `rate_limited` for a key that has never worked in this process, when `address` sent too many unknown
   * keys.
   */
  verify(key: string, address: string): Promise<Caller | null>
  /** Removes a revoked key. A lookup that is in flight is not cached. */
  forget(keyId: string): void
}

interface Entry {
  caller: Caller | null
  untilMs: number
}

/** Creates the cache over `verify` of the store. */
export function createKeyCache(deps: {
  verify(key: string): Promise<{ id: string; scope: ApiKeyScope; template_id: string | null } | null>
  brake: GuessBrake
  now: () => number
}): KeyCache {
  const valid = new Map<string, Entry>()
  const refused = new Map<string, Entry>()
  const inFlight = new Map<string, Promise<Caller | null>>()
  // A lookup that began before a revocation must not be cached after it.
  let generation = 0

  async function look(hash: string, key: string): Promise<Caller | null> {
    const begunAtMs = deps.now()
    const begunIn = generation
    const found = await deps.verify(key)
    const caller =
      found === null ? null : { keyId: found.id, scope: found.scope, templateId: found.template_id }
    const entry = { caller, untilMs: begunAtMs + KEY_TTL_MS }
    if (caller === null) valid.delete(hash)
    if (begunIn === generation) remember(caller === null ? refused : valid, hash, entry)
    return caller
  }

  /** Looks up a key that has never worked here. Costs the address one guess unless the key is valid. */
  async function lookAsGuess(hash: string, key: string, address: string): Promise<Caller | null> {
    const waitMs = deps.brake.take(address)
    if (waitMs > 0)
      throw new CofferdamError('rate_limited', 'Too many unknown API keys came from this address.', {
        details: { retry_in_ms: waitMs },
      })
    let isGuess = false
    try {
      const caller = await look(hash, key)
      isGuess = caller === null
      return caller
    } finally {
      if (!isGuess) deps.brake.giveBack(address)
    }
  }

  return {
    async verify(key, address) {
      const hash = createHash('sha256').update(key).digest('base64')
      for (const map of [valid, refused]) {
        const entry = map.get(hash)
        if (entry === undefined || entry.untilMs <= deps.now()) continue
        map.delete(hash)
        map.set(hash, entry)
        return entry.caller
      }
      const pending = inFlight.get(hash)
      if (pending !== undefined) return pending
      const lookup = valid.has(hash) ? look(hash, key) : lookAsGuess(hash, key, address)
      const promise = lookup.finally(() => inFlight.delete(hash))
      inFlight.set(hash, promise)
      return promise
    },
    forget(keyId) {
      generation += 1
      for (const [hash, entry] of valid) if (entry.caller?.keyId === keyId) valid.delete(hash)
    },
  }

  function remember(map: Map<string, Entry>, hash: string, entry: Entry): void {
    map.set(hash, entry)
    const max = map === valid ? MAX_KEYS : MAX_REFUSED
    for (const oldest of map.keys()) {
      if (map.size <= max) break
      map.delete(oldest)
    }
  }
}

/** Unknown keys that an address may present in one burst. */
const BURST = 20
/** Refill rate. It protects the store, which looks up each guess: 160 random bits cannot be guessed. */
const PER_SECOND = 1
/** Addresses in memory, about 1 MB. The one that was quiet for the longest time is evicted first. */
const MAX_ADDRESSES = 10_000

/**
 * Slows down callers that guess keys: a token bucket per address. Keys that have worked in this process
 * cost nothing, so guesses from a shared address lock nobody out.
 */
export interface GuessBrake {
  /** Takes one guess of `address`. Returns 0 when the key may be looked up, else the wait in ms. */
  take(address: string): number
  /** Returns one guess, because the key was valid or the lookup failed. */
  giveBack(address: string): void
}

/** Creates the brake. `now` is in milliseconds. */
export function createGuessBrake(now: () => number): GuessBrake {
  const spent = new Map<string, { guesses: number; atMs: number }>()

  /** Guesses of `address` that are not refilled yet. */
  const guessesOf = (address: string): number => {
    const known = spent.get(address)
    return known === undefined ? 0 : Math.max(0, known.guesses - ((now() - known.atMs) / 1000) * PER_SECOND)
  }

  const write = (address: string, guesses: number): void => {
    spent.delete(address)
    if (guesses > 0) spent.set(address, { guesses, atMs: now() })
    const [oldest] = spent.keys()
    if (spent.size > MAX_ADDRESSES && oldest !== undefined) spent.delete(oldest)
  }

  return {
    take(address) {
      const guesses = guessesOf(address)
      if (guesses + 1 > BURST) return Math.ceil(((guesses + 1 - BURST) / PER_SECOND) * 1000)
      write(address, guesses + 1)
      return 0
    },
    giveBack(address) {
      write(address, guessesOf(address) - 1)
    },
  }
}

/**
 * The group that an unknown caller's address counts in: the IPv4 address, or the /64 of an IPv6 address. A
 * /64 is the smallest network that one customer gets, with 2^64 addresses to choose from. An IPv4 address
 * written as IPv6 (`::ffff:…`) counts as IPv4. Anything else is returned unchanged.
 */
export function addressGroup(address: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1]
  if (mapped !== undefined) return mapped
  const [bare = ''] = address.split('%', 1)
  if (!isIPv6(bare)) return address
  const [front = '', back] = bare.split('::', 2)
  const head = front === '' ? [] : front.split(':')
  const tail = back === undefined || back === '' ? [] : back.split(':')
  const zeros = Array.from({ length: Math.max(0, 8 - head.length - tail.length) }, () => '0')
  const groups = back === undefined ? head : [...head, ...zeros, ...tail]
  return `${groups
    .slice(0, 4)
    .map((group) => group.toLowerCase())
    .join(':')}::/64`
}
