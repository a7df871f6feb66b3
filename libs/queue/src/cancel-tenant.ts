/**
 * Cancels the executions of a tenant, or of one of its agents, a page at a time, from the newest to the
 * oldest. The oldest, which start first, come last. If they run by then they are stopped too, unless only
 * waiting executions were to be cancelled. Executions that arrive later are not touched.
 */
import type { ExecutionId } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { endUnstarted, type RedactReason } from './end-unstarted.ts'
import { keysOf } from './cell.ts'

export interface TenantCancel {
  /** Cancels only executions of this agent. Default: of all agents. */
  agentId?: string
  /** `waiting`: delayed, queued, or released to a worker that has not taken it. */
  state: 'waiting' | 'running' | 'all'
  reason: string
  /** `next` of the previous page. */
  before?: string
}

export interface CancelledPage {
  /** Ended by this call. */
  cancelled: number
  /** Their workers were told to stop. */
  cancelling: number
  /** Pass it as `before` for the next page. Null when there is none. */
  next: string | null
}

/** Executions per page. Cancelling all of them takes about 100 ms of this process. */
const PAGE = 500
/** Cancellations in flight: enough to hide the round trip, few enough to leave the connection to others. */
const AT_ONCE = 32

/** Cancels one page. Calling again with the same `before` is harmless. */
export async function cancelPage(
  redis: Redis,
  tenantId: string,
  asked: TenantCancel,
  redact?: RedactReason,
): Promise<CancelledPage> {
  const from = asked.before === undefined ? '+inf' : `(${asked.before}`
  const page = await redis.zrevrangebyscore(
    keysOf(redis).live + tenantId,
    from,
    '-inf',
    'WITHSCORES',
    'LIMIT',
    0,
    PAGE,
  )
  const ids = page.filter((_, index) => index % 2 === 0)
  const wanted = await matching(redis, ids, asked)
  const counts = { cancelled: 0, cancelling: 0 }
  const ending = { ending: 'cancelled', reason: 'cancelled', message: asked.reason } as const
  const cancelNext = async (): Promise<void> => {
    for (let id = wanted.pop(); id !== undefined; id = wanted.pop()) {
      const code = await endUnstarted(redis, id as ExecutionId, ending, asked.state !== 'waiting', redact)
      if (code === 'cancelled' || code === 'cancelling') counts[code] += 1
    }
  }
  // `cancelNext` takes from the end, so the newest must be last.
  wanted.reverse()
  await Promise.all(Array.from({ length: AT_ONCE }, cancelNext))
  return { ...counts, next: ids.length < PAGE ? null : (page.at(-1) ?? null) }
}

async function matching(redis: Redis, ids: readonly string[], asked: TenantCancel): Promise<string[]> {
  const reading = redis.pipeline()
  for (const id of ids) reading.hmget(keysOf(redis).record + id, 's', 'a')
  const records = (await reading.exec()) ?? []
  return ids.filter((_, index) => {
    const [error, fields] = records[index] ?? [null, []]
    if (error !== null) throw error
    const [state, agent] = fields as (string | null)[]
    if (asked.agentId !== undefined && agent !== asked.agentId) return false
    return asked.state === 'all' || (state === 'running') === (asked.state === 'running')
  })
}
