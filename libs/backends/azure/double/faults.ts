/** What goes wrong in the double on purpose. Numbers are counts that are used up as they happen. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from './exchange.ts'
import type { SessionPool } from './session-pool.ts'

export interface Faults {
  /** So many calls of the data plane are answered 429. */
  throttle: number
  /** With this `Retry-After`, seconds; null for none. */
  retry_after: number | null
  /** So many calls are answered 403, as before a role has spread. */
  forbid: number
  /** So many calls are answered 500. */
  fail: number
  /** Before so many calls the identifier's session is gone, and the call silently gets a new one. */
  vanish: number
  /** So many executions end Failed with this on stderr, without running anything. */
  fail_executions: number
  fail_stderr: string
  /** So many executions lose all output behind this many characters, whatever was asked. */
  truncate_executions: number
  truncate_to: number
  /** So many executions are delivered twice; the answer is the second one's. */
  twice: number
  /** Of so many calls that were carried out the answer is lost. */
  drop_after: number
  /** So many calls are lost before they are carried out. */
  drop_before: number
  /** Of so many calls that were carried out half of the answer comes, called whole. */
  halve_after: number
  /** Of so many calls that were carried out the answer is a proxy's own page. */
  page_after: number
  /** With this status. */
  page_status: number
  /** Of so many calls to code pools that were carried out the answer is this body, as JSON and with status 200. */
  odd_after: number
  odd_body: string
  /** So many calls of a session are answered 409, as of one whose time is up. */
  expire: number
  /** So many calls of a session are answered that there is none, as by a management that does not know yet of one that is there. */
  hide: number
  /** So many executions are answered while they run, though it was asked to wait. */
  answer_early: number
  /** A fault that throttles, fails, expires or spoils answers applies to paths that hold this; empty for all. */
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

/** True, and one less left, when this is to go wrong now. */
export function happens(faults: Faults, name: Count): boolean {
  if (faults[name] <= 0) return false
  faults[name] -= 1
  return true
}

/** What may go wrong with any call before it is looked at. */
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
