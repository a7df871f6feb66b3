/** The fleet's random id, one per Redis: it stands in every worker id (docs/decisions/0004). */
import { randomBytes } from 'node:crypto'
import type { Redis } from 'ioredis'

const KEY = '{cofferdam}:fleet'

/** 12 hex digits; the first worker of a fleet makes them up. */
export async function readFleetId(redis: Redis): Promise<string> {
  await redis.set(KEY, randomBytes(6).toString('hex'), 'NX')
  const id = await redis.get(KEY)
  if (id === null) throw new Error(`Redis lost ${KEY} while it was read`)
  return id
}
