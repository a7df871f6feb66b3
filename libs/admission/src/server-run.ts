/**
 * Names the life of the Redis server behind a connection (`run_id` of INFO). A server that restarted may have lost its
 * last second of writes (AOF everysec), and a promoted replica what it had not received; both have another run id. A
 * cluster's life is that of all its masters: when one restarts or is replaced, every tenant is compared again.
 */
import { CofferdamError } from '@cofferdam/contract'
import { boundedAnswer } from '@cofferdam/queue/redis-calls'
import { Cluster, type Redis } from 'ioredis'

/** What stands for the run id where the server hides it: only a loss of the marker itself is noticed then. */
const HIDDEN = 'hidden'

export interface ServerRun {
  /** The run id, asked once per connection. Throws CofferdamError('queue_unavailable') while Redis is away. */
  read(this: void): Promise<string>
  /** It is asked again: a script found another one (lua/server-run.lua). A cluster's client need not have heard of a failover. */
  forget(this: void): void
}

export function createServerRun(redis: Redis, timeoutMs: number): ServerRun {
  let known: Promise<string> | null = null
  const forget = (): void => {
    known = null
  }
  /** Masters whose end we hear of. */
  const watched = new WeakSet<Redis>()
  const either: unknown = redis
  const cluster = either instanceof Cluster ? either : null
  redis.on('close', forget)
  cluster?.on('+node', forget).on('-node', forget)
  const ask = cluster === null ? () => readRunId(redis) : () => readRunIds(cluster, watched, forget)
  return {
    forget,
    read() {
      if (known !== null) return known
      const asked = boundedAnswer(ask(), timeoutMs, 'INFO server')
      known = asked
      asked.catch(() => {
        if (known === asked) known = null
      })
      return asked
    },
  }
}

async function readRunIds(cluster: Cluster, watched: WeakSet<Redis>, forget: () => void): Promise<string> {
  const masters = cluster.nodes('master')
  if (masters.length === 0) throw new CofferdamError('queue_unavailable', 'the cluster has no masters now')
  for (const master of masters) {
    if (watched.has(master)) continue
    watched.add(master)
    master.on('close', forget)
  }
  const runs = await Promise.all(masters.map(readRunId))
  return runs.toSorted().join(' ')
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
