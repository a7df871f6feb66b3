/**
 * Remembers for a few seconds what Postgres said about a key, so that a busy client costs one lookup per TTL.
 *
 *   presented key ─► SHA-256 ─► remembered? ─► answer
 *                                  no ─► already being asked? ─► the same promise
 *                                           no ─► store.keys.verify
 *
 * Only hashes are kept, and the map is looked up by hash, so neither memory nor timing tells keys apart. A revoked
 * key works for at most KEY_TTL_MS in other processes; in this one `forget` ends it at once.
 */
import { createHash } from 'node:crypto'
import type { ApiKeyScope } from '@cofferdam/contract'

/** How long a verified key stays valid after it was revoked elsewhere. */
const KEY_TTL_MS = 5000

/** Keys in use at once; the least recently used go first. 4,096 entries are below 1 MiB. */
const MAX_KEYS = 4096

/** Refused keys are remembered apart, so that a flood of guesses cannot push out good keys. */
const MAX_REFUSED = 1024

export interface Caller {
  keyId: string
  scope: ApiKeyScope
}

export interface KeyCache {
  /** Who presents `key`; null when nobody does. Throws `store_unavailable`. */
  verify(key: string): Promise<Caller | null>
  /** Forgets a revoked key of this id, and everything asked about before. */
  forget(keyId: string): void
}

interface Entry {
  caller: Caller | null
  untilMs: number
}

/** Makes the cache over `verify` of the store. */
export function createKeyCache(deps: {
  verify(key: string): Promise<{ id: string; scope: ApiKeyScope } | null>
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
    const caller = found === null ? null : { keyId: found.id, scope: found.scope }
    const entry = { caller, untilMs: begunAtMs + KEY_TTL_MS }
    if (begunIn === generation) remember(caller === null ? refused : good, hash, entry)
    return caller
  }

  return {
    async verify(key) {
      const hash = createHash('sha256').update(key).digest('base64')
      for (const map of [good, refused]) {
        const entry = map.get(hash)
        if (entry === undefined) continue
        map.delete(hash)
        if (entry.untilMs <= deps.now()) continue
        map.set(hash, entry)
        return entry.caller
      }
      const pending = asking.get(hash)
      if (pending !== undefined) return pending
      const promise = ask(hash, key).finally(() => asking.delete(hash))
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
