/** What becomes of a claimed execution, and of an attempt that ran. */
import type { Admitted, AttemptKey } from '@cofferdam/admission'
import type {
  AttemptFacts,
  AttemptRecord,
  CapsUse,
  ExecutionRequest,
  Outcome,
  TenantPolicy,
} from '@cofferdam/contract'
import type { PolicyInForce } from './policy.ts'
import type { Requeue } from './requeue.ts'

/** The attempt may run; admission has charged it and given it a lease. */
export interface Run {
  next: 'run'
  policy: PolicyInForce
  admitted: Admitted
}

/** What the record of an attempt says beside its outcome. */
export interface EndFacts {
  /** When the attempt began, if not when this worker claimed it. */
  startedAtMs?: number
  /** When admission charged the attempt; null when it did not, or when the charge was refunded. */
  chargedAtMs: number | null
  caps: CapsUse | null
  retentionDays: number
  /** The environment that policy decided; a template can narrow what the request said. */
  environment?: ExecutionRequest['environment']
  /** The template that it ran under. Undefined: the one that the request names. */
  templateId?: string | undefined
  refusal?: AttemptFacts['refusal']
  /** The effective policy. It says whether outputs are stored encrypted. */
  tenant?: Pick<TenantPolicy, 'encrypt_outputs'>
}

/** The attempt ends with an outcome that no program of this worker produced. */
export interface End {
  next: 'end'
  outcome: Outcome
  facts: EndFacts
  /** Whose charge to settle by the audit row; null when nobody can have charged the attempt. */
  settles: AttemptKey | null
}

/** The execution goes back to the queue. */
export interface Back {
  next: 'requeue'
  back: Requeue
}

/** What starts no program. `republish`: the audit row is there, its result is not visible yet. */
export type NoRun =
  | End
  | Back
  | { next: 'republish'; record: AttemptRecord; settles: AttemptKey }
  | { next: 'routed' }

export type Decision = Run | { next: 'operate'; policy: PolicyInForce } | NoRun

/** How an attempt went: it ended, or it goes back to the queue because nothing of the user has run. */
export type AttemptResult = { next: 'end'; outcome: Outcome } | Back
