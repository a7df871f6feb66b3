/**
 * Names the life of the Redis server that has the queue. A server that came back may have lost its last second (AOF
 * everysec), a promoted replica what it had not received: both have another name. An execution that was accepted in an
 * earlier life may have run, and ended, without a trace here (lua/include/own.lua, Taken.mayHaveRun).
 */
import { Cluster, type Redis } from 'ioredis'
import { KEYS } from './keys.ts'

/** A cluster tells nobody that one of its nodes restarted: it is asked again after this. */
const CLUSTER_FRESH_MS = 500
/** Eight of forty hex digits tell lives apart, and cost a waiting execution little. */
const DIGITS = 8

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
    return found?.[1]?.slice(0, DIGITS) ?? ''
  } catch (error) {
    // INFO is not allowed to us.
    if (error instanceof Error && /NOPERM|not allowed|unknown command/i.test(error.message)) return ''
    throw error
  }
}
