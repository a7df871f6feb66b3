/**
 * The run of the Redis server behind a connection (`run_id` of INFO). A restarted server may have lost its
 * last second of writes (AOF everysec), and a promoted replica may lack writes. Both have another run ID. A
 * cluster's run is the list of its masters' run IDs: if one of them changes, every tenant's counters are
 * verified again.
 */
import { CofferdamError } from '@cofferdam/contract'
import { boundedAnswer } from '@cofferdam/queue/redis-calls'
import { Cluster, type Redis } from 'ioredis'

/**
 * Used instead of the run ID if the server hides it. Then a data loss is noticed only if it includes the
 * tenant's key `seeded`.
 */
const HIDDEN = 'hidden'

export interface ServerRun {
  /** The run ID, read once per connection. Throws CofferdamError('queue_unavailable') while Redis is away. */
  read(this: void): Promise<string>
  /** Drops the cached ID after a script found another one. A cluster's client may miss a failover. */
  forget(this: void): void
}

export function createServerRun(redis: Redis, timeoutMs: number): ServerRun {
  let known: Promise<string> | null = null
  const forget = (): void => {
    known = null
  }
  /** Masters that already have our `close` listener, so that none gets a second one. */
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
    // NOPERM, or a server without INFO. Unlike a lost connection this is an answer.
    if (error instanceof Error && error.name === 'ReplyError') return HIDDEN
    throw new CofferdamError('queue_unavailable', 'INFO server failed', { cause: error })
  }
}
