/**
 * Names the life of the Redis server that has the queue, for whoever puts executions into it: its run id, as the scripts read it
 * (lua/include/life.lua). An execution that was accepted in an earlier life than it is taken in may have run, and ended, without a
 * trace in this one (Taken.mayHaveRun).
 */
import { Cluster, type Redis } from 'ioredis'
import { QUEUE_BOUNDS } from './bounds.ts'
import { KEYS } from './keys.ts'

/** A cluster tells nobody that one of its nodes restarted: it is asked again after this. */
const CLUSTER_FRESH_MS = 500

const ASK = `return redis.call('INFO', 'server')`

/** Returns the name, asked once per connection; '' where the server hides it, and then nothing is noticed. */
export function createServerLife(redis: Redis): () => Promise<string> {
  let known: Promise<string> | null = null
  let atMs = 0
  const forget = (): void => {
    known = null
  }
  redis.on('close', forget)
  const either: unknown = redis
  const isCluster = either instanceof Cluster
  return () => {
    if (isCluster && performance.now() - atMs > CLUSTER_FRESH_MS) known = null
    if (known !== null) return known
    const asked = read(redis)
    known = asked
    atMs = performance.now()
    asked.catch(() => {
      if (known === asked) known = null
    })
    return asked
  }
}

/** By a script, so that a cluster asks the node that has the queue. */
async function read(redis: Redis): Promise<string> {
  try {
    const found = /^run_id:(\S+)/m.exec(String(await redis.eval(ASK, 1, KEYS.window)))
    return found?.[1]?.slice(0, QUEUE_BOUNDS.lifeDigits) ?? ''
  } catch (error) {
    // INFO is not allowed to us.
    if (error instanceof Error && /NOPERM|not allowed|unknown command/i.test(error.message)) return ''
    throw error
  }
}
