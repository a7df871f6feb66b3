/** Endings in the form that the scripts take, and the endings that the queue itself decides. */
import {
  composeAttempt,
  outcomeWithoutRun,
  type AttemptRecord,
  type Ending,
  type ExecutionId,
  type ExecutionRequest,
} from '@cofferdam/contract'

/** JSON of the `ended` event after its `at_ms` (the script puts Redis's time in front). */
export function endedTail({ result }: AttemptRecord): string {
  const { attempt, ending, exit_status, exit_code } = result
  return JSON.stringify({ attempt, ending, exit_status, exit_code }).slice(1)
}

/** JSON of a `notice` event after its `at_ms`. */
export const noticeTail = (message: string): string => JSON.stringify({ message }).slice(1)

/** Retention of rows that are written without the tenant's policy: the default of the audit table. */
const DEFAULT_RETENTION_DAYS = 30

/** Composes the record of an attempt in which no user code ran. It is not charged. */
export function composeUnstarted(facts: {
  executionId: ExecutionId
  attempt: number
  request: ExecutionRequest
  ending: Ending
  reason: string
  message: string
  enqueuedAtMs: number
  nowMs: number
  traceparent: string
}): AttemptRecord {
  return composeAttempt({
    executionId: facts.executionId,
    attempt: facts.attempt,
    request: facts.request,
    outcome: outcomeWithoutRun(facts.ending, facts.reason, facts.message),
    enqueuedAtMs: facts.enqueuedAtMs,
    startedAtMs: facts.nowMs,
    finishedAtMs: facts.nowMs,
    traceId: facts.traceparent === '' ? null : facts.traceparent.slice(3, 35),
    retentionDays: DEFAULT_RETENTION_DAYS,
    caps: null,
    chargedAtMs: null,
  })
}
