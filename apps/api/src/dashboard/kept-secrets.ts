/**
 * Secrets that this API made. Redis has only their SHA-256, so whoever reads Redis cannot sign in with them.
 *
 *   cfd:ui:<kind>:<sha256>   JSON: the key that the secret stands for, and times; expires with the secret
 *   cfd:ui:<kind>-of:<key>   sorted set: hashes of one key's secrets, oldest first; limits their number
 *
 * Every call uses one Redis key, so it also works in a cluster. If the process dies between two calls, a
 * secret is missing from the set, but it still expires.
 */
import { createHash, randomBytes } from 'node:crypto'
import { boundedAnswer } from '@cofferdam/queue/redis-calls'
import type { Redis } from 'ioredis'
import { z } from 'zod'

/** How long a Redis call may take. It is short because a page waits for the answer. */
const REDIS_MS = 2000

/** 32 random bytes in base64url. */
const SECRET = /^[A-Za-z0-9_-]{43}$/

const keptSchema = z.object({
  key_id: z.string(),
  made_ms: z.int(),
  seen_ms: z.int(),
})

/** What a secret stands for. */
export interface Kept {
  keyId: string
  madeMs: number
  /** When a use of the secret was last recorded. */
  seenMs: number
}

/** Every method throws `queue_unavailable`. */
export interface KeptSecrets {
  /** Makes a secret that ends after `ttlMs`. Ends the oldest secret of the key if the key has too many. */
  make(keyId: string, nowMs: number, ttlMs: number): Promise<string>
  /** Null when the text is not one of our secrets, or the secret has ended. */
  read(secret: string): Promise<Kept | null>
  /** Reads and ends a secret in one step, so of two callers with the same secret only one gets its entry. */
  take(secret: string): Promise<Kept | null>
  /** Records a use of the secret, which then ends in `ttlMs`. Never brings back a secret that has ended. */
  renew(secret: string, kept: Kept, ttlMs: number): Promise<void>
  end(secret: string): Promise<void>
  /** Ends all secrets of one API key. */
  endAll(keyId: string): Promise<void>
}

/** Keeps secrets of one `kind`, at most `maxPerKey` of one API key. `longestMs` is the longest `ttlMs`. */
export function createKeptSecrets(
  redis: Redis,
  { kind, maxPerKey, longestMs }: { kind: 'sign-in' | 'code'; maxPerKey: number; longestMs: number },
): KeptSecrets {
  const placeOf = (hash: string): string => `cfd:ui:${kind}:${hash}`
  const placesOf = (keyId: string): string => `cfd:ui:${kind}-of:${keyId}`
  const asked = <T>(call: Promise<T>): Promise<T> => boundedAnswer(call, REDIS_MS, 'Redis')

  /** Ends the secrets with these `hashes` and removes them from the key's set. */
  async function drop(keyId: string, hashes: readonly string[]): Promise<void> {
    if (hashes.length === 0) return
    await asked(Promise.all(hashes.map((hash) => redis.del(placeOf(hash)))))
    await asked(redis.zrem(placesOf(keyId), ...hashes))
  }

  async function take(secret: string): Promise<Kept | null> {
    if (!SECRET.test(secret)) return null
    const hash = hashOf(secret)
    const kept = fromText(await asked(redis.getdel(placeOf(hash))))
    if (kept !== null) await asked(redis.zrem(placesOf(kept.keyId), hash))
    return kept
  }

  /** Ends the key's oldest secrets above `maxPerKey`. Secrets that have expired do not count. */
  async function endSurplus(keyId: string): Promise<void> {
    const hashes = await asked(redis.zrange(placesOf(keyId), '0', '-1'))
    if (hashes.length <= maxPerKey) return
    const exist = await asked(Promise.all(hashes.map((hash) => redis.exists(placeOf(hash)))))
    const alive = hashes.filter((_, n) => exist[n] === 1)
    const surplus = alive.slice(0, Math.max(0, alive.length - maxPerKey))
    await drop(keyId, [...hashes.filter((_, n) => exist[n] === 0), ...surplus])
  }

  return {
    async make(keyId, nowMs, ttlMs) {
      const secret = randomBytes(32).toString('base64url')
      const hash = hashOf(secret)
      await asked(redis.set(placeOf(hash), toText({ keyId, madeMs: nowMs, seenMs: nowMs }), 'PX', ttlMs))
      await asked(redis.zadd(placesOf(keyId), nowMs, hash))
      await asked(redis.pexpire(placesOf(keyId), longestMs))
      await endSurplus(keyId)
      return secret
    },
    read: async (secret) =>
      SECRET.test(secret) ? fromText(await asked(redis.get(placeOf(hashOf(secret))))) : null,
    take,
    async renew(secret, kept, ttlMs) {
      await asked(redis.set(placeOf(hashOf(secret)), toText(kept), 'PX', ttlMs, 'XX'))
    },
    async end(secret) {
      await take(secret)
    },
    async endAll(keyId) {
      await drop(keyId, await asked(redis.zrange(placesOf(keyId), '0', '-1')))
    },
  }
}

const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('hex')

const toText = ({ keyId, madeMs, seenMs }: Kept): string =>
  JSON.stringify({ key_id: keyId, made_ms: madeMs, seen_ms: seenMs })

/** Parses `text` as JSON. Null when it is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Returns null for null, and for a value that another version wrote in another format. */
function fromText(text: string | null): Kept | null {
  if (text === null) return null
  const { data } = keptSchema.safeParse(parsed(text))
  return data === undefined ? null : { keyId: data.key_id, madeMs: data.made_ms, seenMs: data.seen_ms }
}
