/** Pages of live executions, newest first. */
import type { ExecutionState } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import type { Guard } from './connect.ts'
import { stateOf } from './execution-state.ts'
import { keysOf } from './cell.ts'
import type { LiveFilter } from './live-filter.ts'
import { list, numberOrNull, run, SCRIPTS, text } from './scripts.ts'

/** A page of live executions. */
export interface LivePage {
  states: ExecutionState[]
  /** Null at the end. */
  next: string | null
}

export interface LivePageAsked {
  limit: number
  /** `next` of the page before. Default: the newest. */
  before?: string
  filter?: LiveFilter
}

/** Executions described by one script call. Each costs a forecast, so this keeps a call below about 5 ms. */
const LIVE_CHUNK = 100

/** Executions that one script call compares with a filter: 2 ms of the server (measured). */
const LOOK_CHUNK = 500
/** Executions that one page compares with a filter, however few of them match. */
const LOOK_MOST = 5000

/** One page of a tenant's live executions, or of all tenants' if null. Throws what `guard` throws. */
export async function livePage(
  redis: Redis,
  guard: Guard,
  tenantId: string | null,
  { limit, before = '', filter = {} }: LivePageAsked,
): Promise<LivePage> {
  const isFiltered = Object.keys(filter).length > 0
  const json = isFiltered ? JSON.stringify(filter) : ''
  const states: ExecutionState[] = []
  let cursor: string | null = before
  for (let looked = 0; cursor !== null && states.length < limit && looked < LOOK_MOST;) {
    const wanted = Math.min(LIVE_CHUNK, limit - states.length)
    const look = isFiltered ? Math.min(LOOK_CHUNK, LOOK_MOST - looked) : wanted
    const asked: (string | number)[] = [tenantId ?? '', wanted, cursor, look, json]
    const [found, next = '', count] = list(
      await guard(() => run(redis, SCRIPTS.live, keysOf(redis).window, asked)),
    )
    for (const description of list(found)) states.push(stateOf(description, null))
    looked += numberOrNull(count) ?? 0
    cursor = text(next) === '' ? null : text(next)
  }
  return { states, next: cursor }
}
