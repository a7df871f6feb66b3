/** Finds what the daily cap was before the tenant was stopped. */
import type { PolicyEvent } from '@cofferdam/client'

export interface ValueBefore {
  /** The cap that the stop replaced. Null means the default of the fleet. */
  cap: number | null
  /** Who set it to 0. */
  actor: string
  /** When. */
  at: string
}

/**
 * `tenant_daily` before or after an event. Undefined if it is not a valid cap, because raw SQL may write
 * anything.
 */
function dailyCapOf(side: unknown): number | null | undefined {
  if (typeof side !== 'object' || side === null) return undefined
  const cap: unknown = Reflect.get(side, 'tenant_daily')
  if (cap === null) return null
  return typeof cap === 'number' && Number.isSafeInteger(cap) && cap >= 0 ? cap : undefined
}

/**
 * `events` are changes of caps, newest first. Null if none of them tells it, or if the last change of the
 * daily cap did not set it to 0, so that there is no stop to undo.
 */
export function valueBefore(events: readonly PolicyEvent[]): ValueBefore | null {
  for (const { before, after, actor, created_at: at } of events) {
    const was = dailyCapOf(before)
    const is = dailyCapOf(after)
    if (was === undefined || is === undefined || was === is) continue
    return is === 0 ? { cap: was, actor, at } : null
  }
  return null
}
