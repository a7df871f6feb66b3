/** Pages of live executions, newest first. */
import type { ExecutionState } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import type { Guard } from './connect.ts'
import { stateOf } from './execution-state.ts'
import { KEYS } from './keys.ts'
import { list, run, SCRIPTS, text } from './scripts.ts'

/** A page of live executions. */
export interface LivePage {
  states: ExecutionState[]
  /** Null at the end. */
  next: string | null
}

/** Executions described by one script call. Each costs a forecast, so this keeps a call below about 5 ms. */
const LIVE_CHUNK = 100

/** One page of a tenant's live executions, or of all tenants' if null. Throws what `guard` throws. */
export async function livePage(
  redis: Redis,
  guard: Guard,
  tenantId: string | null,
  { limit, before = '' }: { limit: number; before?: string },
): Promise<LivePage> {
  const states: ExecutionState[] = []
  let cursor: string | null = before
  while (cursor !== null && states.length < limit) {
    const wanted = Math.min(LIVE_CHUNK, limit - states.length)
    const asked: (string | number)[] = [tenantId ?? '', wanted, cursor]
    const reply = list(await guard(() => run(redis, SCRIPTS.live, KEYS.window, asked)))
    for (const description of list(reply[0])) states.push(stateOf(description, null))
    // An entry without a record makes a page shorter. Only an empty page is the end.
    cursor = text(reply[1]) === '' ? null : text(reply[1])
  }
  return { states, next: cursor }
}
