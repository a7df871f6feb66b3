/**
 * Records and completes attempts: the audit row first, then the visible result. While Postgres is away, the
 * script that completes the execution also puts the record into the Redis outbox, so that neither exists
 * alone.
 */
import { composeAttempt, isCofferdamError, type AttemptRecord, type Outcome } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import { SPANS } from '@cofferdam/telemetry'
import { chargeIn, settleCharge } from './attempt-charge.ts'
import type { EndFacts } from './decision.ts'
import { dropUnusedRequest, keepRequest } from './keep-request.ts'
import { effectiveTenant } from './policy.ts'
import { currentTraceId, inSpan, markEnding } from './spans.ts'
import type { WorkerDeps } from './worker-deps.ts'

export interface Recorded {
  /** The valid record. An earlier owner may have written another one. */
  record: AttemptRecord
  /** True while Postgres is away: completing the execution writes the record to the outbox. */
  isInOutbox: boolean
}

/** Writes the audit row of an attempt, unless it exists. The first written row is valid. */
export async function recordAttempt(
  taken: Taken,
  outcome: Outcome,
  facts: EndFacts,
  deps: WorkerDeps,
): Promise<Recorded> {
  const composed = composeAttempt({
    executionId: taken.executionId,
    attempt: taken.attempt,
    request: {
      ...taken.request,
      environment: facts.environment ?? taken.request.environment,
      template_id: facts.templateId ?? taken.request.template_id,
    },
    outcome,
    enqueuedAtMs: taken.enqueuedAtMs,
    startedAtMs: facts.startedAtMs ?? taken.takenAtMs,
    finishedAtMs: taken.nowMs(),
    traceId: currentTraceId(),
    retentionDays: facts.retentionDays,
    caps: facts.caps,
    chargedAtMs: facts.chargedAtMs,
    prices: deps.prices,
    ...(facts.refusal === undefined ? {} : { refusal: facts.refusal }),
    encryptOutputs: facts.tenant?.encrypt_outputs === true,
  })
  return await inSpan(SPANS.audit, async () => {
    // The request is kept only with the last attempt, so not if a retry follows.
    const requestRef = wantsRetry(taken, composed)
      ? null
      : await keepRequest(taken, composed, facts.tenant, deps)
    return await writeRow(taken, requestRef === null ? composed : { ...composed, requestRef }, deps)
  })
}

async function writeRow(taken: Taken, composed: AttemptRecord, deps: WorkerDeps): Promise<Recorded> {
  try {
    const { inserted } = await deps.store.record(composed)
    const first = inserted ? null : await deps.store.findAttempt(taken.executionId, composed.audit.attempt)
    await dropUnusedRequest(composed, first, deps)
    return { record: first ?? composed, isInOutbox: false }
  } catch (error) {
    if (!isCofferdamError(error) || error.code !== 'store_unavailable') throw error
    const executionId = taken.executionId
    deps.logger.warn({ execution_id: executionId }, 'Postgres is away: the audit row goes to the outbox')
    return { record: composed, isInOutbox: true }
  }
}

/**
 * Makes the result visible and frees the slot, or schedules the next attempt of a caller that opted into
 * retries. Throws `fenced` when another worker owns the execution.
 */
export async function completeAttempt(
  taken: Taken,
  { record, isInOutbox }: Recorded,
  deps: WorkerDeps,
): Promise<void> {
  markEnding(record.result.ending)
  const info = { slotMs: taken.nowMs() - taken.takenAtMs, outbox: isInOutbox }
  const isRetried = wantsRetry(taken, record)
  await inSpan(SPANS.publish, () => (isRetried ? taken.retry(record, info) : taken.settle(record, info)))
  if (!isRetried && taken.request.checkpoint !== undefined) await deps.checkpoints.forget(taken.executionId)
  deps.metrics.ended(record)
}

function wantsRetry({ request: { retry } }: Taken, { result }: AttemptRecord): boolean {
  return (
    retry !== undefined &&
    result.attempt < retry.max_attempts &&
    retry.on.some((ending) => ending === result.ending)
  )
}

/**
 * Writes the audit rows that waited in the Redis outbox: attempts that ended while Postgres was away, and
 * executions cancelled in the queue by processes that cannot read tenant policy. Idempotent. Throws while
 * Postgres is away.
 */
export async function storeOutbox(records: readonly AttemptRecord[], deps: WorkerDeps): Promise<void> {
  await Promise.all(
    records.map(async ({ audit, ...rest }) => {
      const facts = await deps.policies.read({
        tenant_id: audit.tenant_id,
        agent_id: audit.agent_id,
        ...(audit.template_id === null ? {} : { template_id: audit.template_id }),
      })
      const { tenant_id: tenantId, agent_id: agentId, attempt } = audit
      const { execution_id: executionId } = rest.result
      const key = { tenantId, agentId, executionId, attempt }
      const chargedAtMs = audit.charged_at === null ? null : Date.parse(audit.charged_at)
      // The Redis of the caps may have lost the charge while the row waited in the Redis of the queue. If
      // Postgres already has the row, the charge was counted when the counters were restored.
      if (chargedAtMs !== null && (await deps.store.findAttempt(executionId, attempt)) === null)
        await deps.admission.keepEarlierCharge({ ...key, chargedAtMs })
      const retention_days = effectiveTenant(facts)?.retention_days ?? audit.retention_days
      const { inserted } = await deps.store.record({ ...rest, audit: { ...audit, retention_days } })
      const first = inserted ? null : await deps.store.findAttempt(executionId, attempt)
      await dropUnusedRequest({ ...rest, audit }, first, deps)
      // The worker that admitted the attempt may have died before it settled the charge.
      await settleCharge(key, chargeIn(first ?? { audit }), deps)
    }),
  )
}
