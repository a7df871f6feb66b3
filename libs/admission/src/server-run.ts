/**
 * Names the life of the Redis server behind a connection (`run_id` of INFO). A server that restarted may have lost its
 * last second of writes (AOF everysec), and a promoted replica what it had not received; both have another run id.
 */
import { CofferdamError } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { within } from './within.ts'

/** What stands for the run id where the server hides it: only a loss of the marker itself is noticed then. */
const HIDDEN = 'hidden'

/** Returns the run id, asked once per connection. Throws CofferdamError('queue_unavailable') while Redis is away. */
export function createServerRun(redis: Redis, timeoutMs: number): () => Promise<string> {
  let known: Promise<string> | null = null
  redis.on('close', () => {
    known = null
  })
  return () => {
    if (known !== null) return known
    const asked = within(readRunId(redis), timeoutMs, 'INFO server')
    known = asked
    asked.catch(() => {
      if (known === asked) known = null
    })
    return asked
  }
}

async function readRunId(redis: Redis): Promise<string> {
  try {
    const found = /^run_id:(\S+)/m.exec(await redis.info('server'))
    return found?.[1] ?? HIDDEN
  } catch (error) {
    // NOPERM, or a server without INFO: an answer, unlike a lost connection.
    if (error instanceof Error && error.name === 'ReplyError') return HIDDEN
    throw new CofferdamError('queue_unavailable', 'INFO server failed', { cause: error })
  }
}
