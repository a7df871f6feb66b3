/**
 * Ends one attempt: audit row first, then the result. With Postgres away the record goes to the Redis outbox in the
 * same step as the settlement, so that neither can exist without the other.
 */
import {
  composeAttempt,
  isCofferdamError,
  type AttemptFacts,
  type AttemptRecord,
  type CapsUse,
  type ExecutionRequest,
  type Outcome,
  type TenantPolicy,
} from '@cofferdam/contract'
import type { Settlement } from '@cofferdam/admission'
import type { Taken } from '@cofferdam/queue'
import { SPANS } from '@cofferdam/telemetry'
import { currentTraceId, inSpan, markEnding } from './spans.ts'
import type { WorkerDeps } from './worker-deps.ts'

export interface Closing {
  /** When the attempt began, if not when this worker took it. */
  startedAtMs?: number
  /** When admission charged the attempt; null when it did not, or gave it back. */
  chargedAtMs: number | null
  caps: CapsUse | null
  retentionDays: number
  /** Where policy let it run: a template may have narrowed what the request said. */
  environment?: ExecutionRequest['environment']
  /** The template that it ran under; undefined: what the request names. */
  templateId?: string | undefined
  refusal?: AttemptFacts['refusal']
  /** The effective policy under which it ran; it says whether what the program left is stored encrypted. */
  tenant?: Pick<TenantPolicy, 'encrypt_outputs'>
}

/**
 * Records and settles (or schedules the next attempt, where the caller opted in). Resolves with what the audit row says
 * that the attempt was charged, null when it was not: to be settled with admission. Throws `fenced` when another worker
 * owns it now.
 */
export async function closeAttempt(
  taken: Taken,
  outcome: Outcome,
  closing: Closing,
  deps: WorkerDeps,
): Promise<Settlement | null> {
  const finishedAtMs = taken.nowMs()
  const record = composeAttempt({
    executionId: taken.executionId,
    attempt: taken.attempt,
    request: {
      ...taken.request,
      environment: closing.environment ?? taken.request.environment,
      template_id: closing.templateId ?? taken.request.template_id,
    },
    outcome,
    enqueuedAtMs: taken.enqueuedAtMs,
    startedAtMs: closing.startedAtMs ?? taken.takenAtMs,
    finishedAtMs,
    traceId: currentTraceId(),
    retentionDays: closing.retentionDays,
    caps: closing.caps,
    chargedAtMs: closing.chargedAtMs,
    prices: deps.prices,
    ...(closing.refusal === undefined ? {} : { refusal: closing.refusal }),
    encryptOutputs: closing.tenant?.encrypt_outputs === true,
  })
  const settlement = await publish(taken, record, deps)
  deps.metrics.ended(record)
  return settlement
}

/**
 * Writes the audit row, then the ending. Used for fresh records and for those found from a dead owner. Where a row of the
 * attempt is there already it is the truth: its ending is published, and what it says of the charge is settled.
 */
export async function publish(
  taken: Taken,
  composed: AttemptRecord,
  deps: WorkerDeps,
): Promise<Settlement | null> {
  markEnding(composed.result.ending)
  const { recorded, record } = await inSpan(SPANS.audit, () => recordInPostgres(taken, composed, deps))
  const info = { slotMs: taken.nowMs() - taken.takenAtMs, outbox: !recorded }
  const again = wantsRetry(taken, record)
  await inSpan(SPANS.publish, () => (again ? taken.retry(record, info) : taken.settle(record, info)))
  if (!again && taken.request.checkpoint !== undefined) await deps.checkpoints.forget(taken.executionId)
  return settlementOf(record)
}

/** What an audit row says that its attempt was charged; null when it was not. */
export function settlementOf({ audit }: Pick<AttemptRecord, 'audit'>): Settlement | null {
  return audit.quota_charged ? { cpuMs: audit.charged_cpu_ms ?? 0, cost: audit.cost ?? 0 } : null
}

/** The record that stands; `recorded` is false while Postgres is away: then it goes to the outbox. */
async function recordInPostgres(
  taken: Taken,
  record: AttemptRecord,
  deps: WorkerDeps,
): Promise<{ recorded: boolean; record: AttemptRecord }> {
  try {
    const { inserted } = await deps.store.record(record)
    const first = inserted ? null : await deps.store.findAttempt(taken.executionId, record.audit.attempt)
    return { recorded: true, record: first ?? record }
  } catch (error) {
    if (!isCofferdamError(error) || error.code !== 'store_unavailable') throw error
    deps.logger.warn(
      { execution_id: record.result.execution_id },
      'Postgres is away: the audit row goes to the outbox',
    )
    return { recorded: false, record }
  }
}

function wantsRetry(taken: Taken, record: AttemptRecord): boolean {
  const retry = taken.request.retry
  return (
    retry !== undefined &&
    record.result.attempt < retry.max_attempts &&
    retry.on.some((ending) => ending === record.result.ending)
  )
}
