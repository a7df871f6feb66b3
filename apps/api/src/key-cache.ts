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
import { CofferdamError, type ApiKeyScope } from '@cofferdam/contract'
import type { ApiKeys, VerifiedKey } from '@cofferdam/store'
import type { GuessBrake } from './guess-brake.ts'
import type { Grant } from './oauth/scopes.ts'

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
  /** Whether the caller may only read. */
  readOnly: boolean
  /** Set when the request came from the dashboard, with a cookie instead of a key. */
  via?: 'ui'
  /** What an access token permits. Absent for API keys, which permit everything in their scope. */
  grant?: Grant
}

export interface KeyCache {
  /**
   * Returns who presents `key`; null when the key is not valid. Throws `store_unavailable`. Throws
   * `rate_limited` for a key that has never worked in this process, when `address` sent too many unknown
   * keys.
   */
  verify(key: string, address: string): Promise<Caller | null>
  /**
   * Like `verify`, but finds a sign-in's key by the key's ID, and limits no guesses. Null when the key was
   * revoked. Throws `store_unavailable`.
   */
  find(keyId: string): Promise<Caller | null>
  /** Whether `key` was valid when it was last looked up here. Such a key is no guess. */
  hasWorked(key: string): boolean
  /** Removes a revoked key. A lookup that is in flight is not cached. */
  forget(keyId: string): void
}

interface Entry {
  caller: Caller | null
  untilMs: number
}

const hashOf = (key: string): string => createHash('sha256').update(key).digest('base64')

/** The cache entry of a key ID. It cannot equal the hash of a key, because hashes contain no space. */
const placeOf = (keyId: string): string => `id ${keyId}`

/** Creates the cache over the keys of the store. */
export function createKeyCache(deps: {
  keys: Pick<ApiKeys, 'verify' | 'find'>
  brake: GuessBrake
  now: () => number
}): KeyCache {
  const valid = new Map<string, Entry>()
  const refused = new Map<string, Entry>()
  const inFlight = new Map<string, Promise<Caller | null>>()
  // Counts revocations. A lookup that began before a revocation must not be cached after it.
  let generation = 0

  async function look(hash: string, ask: () => Promise<VerifiedKey | null>): Promise<Caller | null> {
    const begunAtMs = deps.now()
    const begunIn = generation
    const found = await ask()
    const caller = found === null ? null : callerWith(found)
    const entry = { caller, untilMs: begunAtMs + KEY_TTL_MS }
    if (caller === null) valid.delete(hash)
    if (begunIn === generation) remember(caller === null ? refused : valid, hash, entry)
    return caller
  }

  /** Looks up a key that has never worked here. Costs the address one guess unless the key is valid. */
  async function lookAsGuess(
    hash: string,
    ask: () => Promise<VerifiedKey | null>,
    address: string,
  ): Promise<Caller | null> {
    const waitMs = deps.brake.take(address)
    if (waitMs > 0)
      throw new CofferdamError('rate_limited', 'Too many unknown API keys came from this address.', {
        details: { retry_in_ms: waitMs },
      })
    let isGuess = false
    try {
      const caller = await look(hash, ask)
      isGuess = caller === null
      return caller
    } finally {
      if (!isGuess) deps.brake.giveBack(address)
    }
  }

  /** The answer that is cached or on its way. Else that of `lookUp`. */
  async function answerFor(hash: string, lookUp: () => Promise<Caller | null>): Promise<Caller | null> {
    for (const map of [valid, refused]) {
      const entry = map.get(hash)
      if (entry === undefined || entry.untilMs <= deps.now()) continue
      map.delete(hash)
      map.set(hash, entry)
      return entry.caller
    }
    const pending = inFlight.get(hash)
    if (pending !== undefined) return pending
    const promise = lookUp().finally(() => inFlight.delete(hash))
    inFlight.set(hash, promise)
    return promise
  }

  return {
    verify(key, address) {
      const hash = hashOf(key)
      const ask = () => deps.keys.verify(key)
      return answerFor(hash, () => (valid.has(hash) ? look(hash, ask) : lookAsGuess(hash, ask, address)))
    },
    find(keyId) {
      const place = placeOf(keyId)
      return answerFor(place, () => look(place, () => deps.keys.find(keyId)))
    },
    hasWorked: (key) => valid.has(hashOf(key)),
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

/** The caller that a key stands for. */
const callerWith = ({ id, scope, template_id, read_only }: VerifiedKey): Caller => ({
  keyId: id,
  scope,
  templateId: template_id,
  readOnly: read_only,
})
