/** A program in its sandbox: what each step from the hand-over to the outcome works with. */
import { stopCauseOf } from '@cofferdam/contract'
import type { ExecutionEgress } from '@cofferdam/egress'
import type { Task } from '@cofferdam/tasks'
import type { Attempt, ExecutorParts } from './attempt.ts'
import type { HeldSandbox } from './held-sandbox.ts'
import type { StreamName } from './output.ts'
import type { RedactionRules } from './redaction-rules.ts'
import type { AttemptSpans } from './spans.ts'

/** From when its sandbox is ready to its outcome. */
export interface ProgramRun {
  parts: ExecutorParts
  attempt: Attempt
  held: HeldSandbox
  rules: RedactionRules
  spans: AttemptSpans
  /** Null without a network. */
  egress: ExecutionEgress | null
  /** Runs in place of the request's program; null when that is what runs. */
  task: Task | null
  /**
   * When the program was handed over, by the clock; and when nobody waited for it any more, the same until
   * then.
   */
  startedMs: number
  endedMs: number
}

/** Names the attempt to the log and to the blob store. */
export function keyOf({ request, executionId, attempt }: Attempt) {
  return { tenantId: request.tenant_id, executionId, attempt }
}

/** Who hears of text, notices and errors. */
export function listeners({ attempt, parts }: ProgramRun) {
  return {
    onText: (stream: StreamName, text: string) => attempt.onOutput(stream, text),
    onNotice: (message: string) => attempt.onNotice?.(message),
    onError: (error: unknown, message: string) => parts.log.error({ err: error, ...keyOf(attempt) }, message),
  }
}

/** Whether another worker has the attempt now. */
export const isFenced = ({ signal }: Attempt): boolean =>
  signal.aborted && stopCauseOf(signal) === 'lock_lost'
