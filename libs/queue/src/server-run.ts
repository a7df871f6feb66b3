/**
 * The run ID of the Redis server that has the queue. A producer stores it with each execution. If the run ID
 * has changed when a worker takes the execution, it may have run already. It may even have ended without a
 * trace in this server (Taken.mayHaveRun).
 */
import { Cluster, type Redis } from 'ioredis'
import { QUEUE_BOUNDS } from './bounds.ts'
import { keysOf } from './cell.ts'

/** A cluster connection does not report restarted nodes, so the ID is read again. */
const CLUSTER_FRESH_MS = 500

const ASK = `return redis.call('INFO', 'server')`

/** Reads the ID once per connection. '' when the server hides it, and then restarts go unnoticed. */
export function createServerRun(redis: Redis): () => Promise<string> {
  let known: Promise<string> | null = null
  let atMs = 0
  const expire = (): void => {
    known = null
  }
  redis.on('close', expire)
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

/** Uses a script, because a cluster routes it to the node that has the queue. */
async function read(redis: Redis): Promise<string> {
  try {
    const found = /^run_id:(\S+)/m.exec(String(await redis.eval(ASK, 1, keysOf(redis).window)))
    return found?.[1]?.slice(0, QUEUE_BOUNDS.runIdDigits) ?? ''
  } catch (error) {
    // Our user may not call INFO.
    if (error instanceof Error && /NOPERM|not allowed|unknown command/i.test(error.message)) return ''
    throw error
  }
}
