/** What becomes of a claimed execution, and of an attempt that ran. */
import type { Admitted, AttemptKey } from '@cofferdam/admission'
import type { AttemptFacts, AttemptRecord, CapsUse, ExecutionRequest, Outcome } from '@cofferdam/contract'
import type { KeepRules } from './keep-request.ts'
import type { PolicyInForce } from './policy.ts'
import type { Requeue } from './requeue.ts'

/** The attempt may run. Admission has charged it and given it a lease. */
export interface Run {
  next: 'run'
  policy: PolicyInForce
  admitted: Admitted
}

/** What the record of an attempt contains besides its outcome. */
export interface EndFacts {
  /** When the attempt began. Absent: when this worker claimed it. */
  startedAtMs?: number
  /** When admission charged the attempt. Null: never, or the charge was refunded. */
  chargedAtMs: number | null
  caps: CapsUse | null
  retentionDays: number
  /** The environment that policy decided. A template can narrow the requested one. */
  environment?: ExecutionRequest['environment']
  /** The template in force. Undefined: the one that the request names. */
  templateId?: string | undefined
  refusal?: AttemptFacts['refusal']
  /** The effective policy, which says how outputs are stored and whether the request is kept. */
  tenant?: KeepRules
}

/** The attempt ends with an outcome that no program of this worker produced. */
export interface End {
  next: 'end'
  outcome: Outcome
  facts: EndFacts
  /** The attempt whose charge is settled by the audit row. Null when nobody can have charged it. */
  settles: AttemptKey | null
}

/** The execution goes back to the queue. */
export interface Back {
  next: 'requeue'
  back: Requeue
}

/** Starts no program. `republish`: the audit row exists, but its result is not visible yet. */
export type NoRun =
  | End
  | Back
  | { next: 'republish'; record: AttemptRecord; settles: AttemptKey }
  | { next: 'routed' }

export type Decision = Run | { next: 'operate'; policy: PolicyInForce } | NoRun

/** The attempt ended, or it goes back to the queue because nothing of the user has run. */
export type AttemptResult = { next: 'end'; outcome: Outcome } | Back
