/**
 * Remembers for a few seconds what Postgres said about a key, so that a busy client costs one lookup per TTL.
 *
 *   presented key ─► SHA-256 ─► remembered? ─► answer
 *                                  no ─► already being asked? ─► the same promise
 *                                           no ─► worked before, or its address may guess? ─►
 *                                           store.keys.verify
 *
 * Only hashes are kept, and the map is looked up by hash, so neither memory nor timing tells keys apart. A revoked
 * key works for at most KEY_TTL_MS in other processes; in this one `forget` ends it at once.
 */
import { createHash } from 'node:crypto'
import { CofferdamError, type ApiKeyScope } from '@cofferdam/contract'
import type { GuessBrake } from './guess-brake.ts'

/** How long a verified key stays valid after it was revoked elsewhere. */
const KEY_TTL_MS = 5000

/** Keys in use at once; the least recently used go first. 4,096 entries are below 1 MiB. */
const MAX_KEYS = 4096

/** Refused keys are remembered apart, so that a flood of guesses cannot push out good keys. */
const MAX_REFUSED = 1024

export interface Caller {
  keyId: string
  scope: ApiKeyScope
  /** What comes with the key runs under this template; null: under the one that the request names. */
  templateId: string | null
}

export interface KeyCache {
  /**
   * Who presents `key` from `address`; null when nobody does. Throws `store_unavailable`, and `rate_limited`
   * for a key that this process never saw work when too many unknown ones came from that address.
   */
  verify(key: string, address: string): Promise<Caller | null>
  /** Forgets a revoked key of this id, and everything asked about before. */
  forget(keyId: string): void
}

interface Entry {
  caller: Caller | null
  untilMs: number
}

/** Makes the cache over `verify` of the store. */
export function createKeyCache(deps: {
  verify(key: string): Promise<{ id: string; scope: ApiKeyScope; template_id: string | null } | null>
  brake: GuessBrake
  now: () => number
}): KeyCache {
  const good = new Map<string, Entry>()
  const refused = new Map<string, Entry>()
  const asking = new Map<string, Promise<Caller | null>>()
  // A verification that began before a revocation must not be remembered after it.
  let generation = 0

  async function ask(hash: string, key: string): Promise<Caller | null> {
    const begunAtMs = deps.now()
    const begunIn = generation
    const found = await deps.verify(key)
    const caller =
      found === null ? null : { keyId: found.id, scope: found.scope, templateId: found.template_id }
    const entry = { caller, untilMs: begunAtMs + KEY_TTL_MS }
    if (caller === null) good.delete(hash)
    if (begunIn === generation) remember(caller === null ? refused : good, hash, entry)
    return caller
  }

  /** Asks about a key that was never seen to work: a guess of its address, unless it works. */
  async function askOnce(hash: string, key: string, address: string): Promise<Caller | null> {
    const waitMs = deps.brake.take(address)
    if (waitMs > 0)
      throw new CofferdamError('rate_limited', 'Too many unknown API keys came from this address.', {
        details: { retry_in_ms: waitMs },
      })
    let isGuess = false
    try {
      const caller = await ask(hash, key)
      isGuess = caller === null
      return caller
    } finally {
      if (!isGuess) deps.brake.giveBack(address)
    }
  }

  return {
    async verify(key, address) {
      const hash = createHash('sha256').update(key).digest('base64')
      for (const map of [good, refused]) {
        const entry = map.get(hash)
        if (entry === undefined || entry.untilMs <= deps.now()) continue
        map.delete(hash)
        map.set(hash, entry)
        return entry.caller
      }
      const pending = asking.get(hash)
      if (pending !== undefined) return pending
      const asked = good.has(hash) ? ask(hash, key) : askOnce(hash, key, address)
      const promise = asked.finally(() => asking.delete(hash))
      asking.set(hash, promise)
      return promise
    },
    forget(keyId) {
      generation += 1
      for (const [hash, entry] of good) if (entry.caller?.keyId === keyId) good.delete(hash)
    },
  }

  function remember(map: Map<string, Entry>, hash: string, entry: Entry): void {
    map.set(hash, entry)
    const max = map === good ? MAX_KEYS : MAX_REFUSED
    for (const oldest of map.keys()) {
      if (map.size <= max) break
      map.delete(oldest)
    }
  }
}
