/** Faults that a test injects. The fields of `Count` are counts, used up as the faults happen. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from './exchange.ts'
import type { SessionPool } from './session-pool.ts'

export interface Faults {
  /** Data plane calls answered with 429. */
  throttle: number
  /** Their `Retry-After` in seconds; null for none. */
  retry_after: number | null
  /** Calls answered with 403, as before a role has propagated. */
  forbid: number
  /** Calls answered with 500. */
  fail: number
  /** Calls before which the identifier's session disappears; they silently get a new one. */
  vanish: number
  /** Executions that run nothing and end as Failed, with `fail_stderr` on stderr. */
  fail_executions: number
  fail_stderr: string
  /** Executions whose stdout and stderr are each cut after `truncate_to` characters. */
  truncate_executions: number
  truncate_to: number
  /** Executions delivered twice; the answer is the second one's. */
  twice: number
  /** Calls that take effect but whose answer is lost. */
  drop_after: number
  /** Calls that are lost before they take effect. */
  drop_before: number
  /** Calls that take effect but whose answer is cut in half, with a matching length. */
  halve_after: number
  /** Calls that take effect but are answered with a proxy's page. */
  page_after: number
  /** Status of that page. */
  page_status: number
  /** Calls that take effect but are answered with `odd_body` and status 200. Not for calls to a container. */
  odd_after: number
  odd_body: string
  /** Session calls answered with 409, as for a session whose time is up. */
  expire: number
  /** Session calls answered as if the existing session were unknown. */
  hide: number
  /** Executions answered while they still run, although the caller asked to wait. */
  answer_early: number
  /**
   * Limits `throttle`, `hide`, `fail`, `expire`, `drop_before` and the `*_after` faults to paths with this
   * text. Empty: all paths.
   */
  drop_path: string
  latency_ms: number
}

export const NO_FAULTS: Faults = {
  throttle: 0,
  retry_after: null,
  forbid: 0,
  fail: 0,
  vanish: 0,
  fail_executions: 0,
  fail_stderr: 'Execution aborted',
  truncate_executions: 0,
  truncate_to: 4096,
  twice: 0,
  drop_after: 0,
  drop_before: 0,
  halve_after: 0,
  page_after: 0,
  page_status: 200,
  odd_after: 0,
  odd_body: '{}',
  expire: 0,
  hide: 0,
  answer_early: 0,
  drop_path: '',
  latency_ms: 0,
}

type Count =
  | 'throttle'
  | 'forbid'
  | 'fail'
  | 'vanish'
  | 'fail_executions'
  | 'truncate_executions'
  | 'twice'
  | 'drop_after'
  | 'drop_before'
  | 'halve_after'
  | 'page_after'
  | 'odd_after'
  | 'expire'
  | 'hide'
  | 'answer_early'

/** Returns true if the fault is to happen now, and then lowers its count by one. */
export function happens(faults: Faults, name: Count): boolean {
  if (faults[name] <= 0) return false
  faults[name] -= 1
  return true
}

/** Applies the faults that are independent of the call's content. */
export async function beforeCall(
  faults: Faults,
  pool: SessionPool,
  path: string,
  identifier: string,
): Promise<void> {
  if (faults.latency_ms > 0) await sleep(faults.latency_ms)
  if (happens(faults, 'forbid'))
    throw new Refusal(
      403,
      'Forbidden',
      'The principal lacks Azure ContainerApps Session Executor on the pool.',
    )
  const isMeant = path.includes(faults.drop_path)
  if (isMeant && happens(faults, 'throttle')) {
    const headers = faults.retry_after === null ? {} : { 'Retry-After': String(faults.retry_after) }
    throw new Refusal(429, 'TooManyRequests', 'Too many requests.', headers as Record<string, string>)
  }
  if (isMeant && identifier !== '' && happens(faults, 'hide'))
    throw new Refusal(400, 'SessionWithIdentifierNotFound', 'There is no session of this identifier.')
  if (isMeant && happens(faults, 'fail')) throw new Refusal(500, 'InternalServerError', 'Something failed.')
  if (identifier !== '' && happens(faults, 'vanish')) await pool.end(identifier)
}
