/**
 * Decides on an execution that an earlier owner left. An attempt that began is never rerun on its own.
 *
 *   its audit row exists → the owner died between recording and completing: the recorded result is published
 *   it was interrupted   → its sandbox is killed and it ends as worker_lost, with the streamed output. It is
 *                          charged only when its owner reported that it had handed the program over
 *   anything else        → null: the execution is processed as if nobody had claimed it before
 */
import type { EarlierCharge } from '@cofferdam/admission'
import {
  isCofferdamError,
  outcomeWithoutRun,
  stopCauseOf,
  type AttemptRecord,
  type Outcome,
  type OutputView,
  type TenantPolicy,
} from '@cofferdam/contract'
import type { Interrupted, Taken } from '@cofferdam/queue'
import { setTimeout as delay } from 'node:timers/promises'
import { attemptKey } from './attempt-charge.ts'
import type { NoRun } from './decision.ts'
import { killLeftSandbox } from './kill-left-sandbox.ts'
import { effectiveTenant } from './policy.ts'
import type { WorkerDeps } from './worker-deps.ts'

const HANDED_OVER =
  'The worker died after it had handed the program over to its sandbox. ' +
  'How far the program came is not known; it was not run again.'
const NOT_HANDED_OVER =
  'The worker died while it handed the program over to its sandbox, ' +
  'and nothing shows that the program ran. It was not run again, because it may have, and it is not charged.'

/** Pause between lookups of an audit row while Postgres is away. Only the row tells how the attempt ended. */
const STORE_POLL_MS = 1000

export async function recover(taken: Taken, deps: WorkerDeps): Promise<NoRun | null> {
  const { interrupted } = taken
  if (interrupted === null && !taken.mayHaveRun) return null
  const attempt = interrupted?.attempt ?? taken.attempt
  const settles = { ...attemptKey(taken), attempt }
  const record = await findRecord(taken, attempt, deps)
  if (interrupted !== null) await killOldSandbox(taken, interrupted, deps)
  if (record !== null) return { next: 'republish', record, settles }
  if (interrupted === null) return null

  const chargedAtMs = interrupted.handedOver ? interrupted.chargedAtMs : null
  if (chargedAtMs !== null) await keepCharge({ ...settles, chargedAtMs }, deps)
  const policy = await policyNow(taken, deps)
  const output = policy === null ? {} : await streamedOutput(taken, deps)
  return {
    next: 'end',
    outcome: lostOutcome(interrupted, output),
    facts: {
      chargedAtMs,
      startedAtMs: interrupted.startedAtMs,
      caps: null,
      retentionDays: policy?.tenant.retention_days ?? deps.defaultRetentionDays,
      ...policy,
    },
    settles,
  }
}

/**
 * If the caps have their own Redis, it may have lost the charge, and the owner that would have noticed is
 * dead. Never throws: if that Redis is away, the audit row says what was charged, and the next seeding counts
 * it.
 */
async function keepCharge(charge: EarlierCharge, { admission, logger }: WorkerDeps): Promise<void> {
  try {
    await admission.keepEarlierCharge(charge)
  } catch (error) {
    logger.warn(
      { err: error, tenant_id: charge.tenantId, execution_id: charge.executionId },
      'a charge from before a loss of Redis could not be counted again',
    )
  }
}

function lostOutcome(interrupted: Interrupted, output: Partial<Outcome>): Outcome {
  const { handedOver, backend, isolation, ref } = interrupted
  return {
    ...(handedOver
      ? outcomeWithoutRun('worker_lost', 'worker_lost', HANDED_OVER)
      : outcomeWithoutRun('worker_lost', 'not_handed_over', NOT_HANDED_OVER)),
    backend,
    isolation,
    ...(ref?.vendorRef === undefined ? {} : { vendorRef: ref.vendorRef }),
    began: handedOver,
    ...output,
  }
}

async function findRecord(taken: Taken, attempt: number, deps: WorkerDeps): Promise<AttemptRecord | null> {
  for (;;) {
    try {
      return await deps.store.findAttempt(taken.executionId, attempt)
    } catch (error) {
      if (!isCofferdamError(error) || error.code !== 'store_unavailable') throw error
      deps.logger.warn(
        { err: error, execution_id: taken.executionId },
        'cannot look up an interrupted attempt yet',
      )
      await pause(taken.signal)
    }
  }
}

/**
 * Rejects when the worker drains or has lost the execution. If the execution was cancelled, it still waits,
 * because the audit row may exist and says how the attempt ended.
 */
async function pause(signal: AbortSignal): Promise<void> {
  const isCancelled = (): boolean => signal.aborted && stopCauseOf(signal) === 'cancelled'
  if (isCancelled()) await delay(STORE_POLL_MS)
  else
    await delay(STORE_POLL_MS, undefined, { signal }).catch((error: unknown) => {
      if (!isCancelled()) throw error
    })
}

async function killOldSandbox(taken: Taken, interrupted: Interrupted, deps: WorkerDeps): Promise<void> {
  try {
    await killLeftSandbox(taken, interrupted, deps)
  } catch (error) {
    deps.logger.error(
      { err: error, sandbox: interrupted.ref?.id },
      'the sandbox of a dead worker could not be killed; the janitor tries again',
    )
  }
}

/** Null when it is unreadable. Then no outputs are kept, because they might have to be encrypted. */
async function policyNow(
  taken: Taken,
  deps: WorkerDeps,
): Promise<{ tenant: TenantPolicy; templateId: string | undefined } | null> {
  const facts = await deps.policies.read(taken.request).catch(() => null)
  const tenant = facts === null ? null : effectiveTenant(facts)
  return tenant === null ? null : { tenant, templateId: facts?.templateId }
}

/** What callers saw live of the attempt. Nothing when that cannot be read. */
async function streamedOutput(taken: Taken, { logger }: WorkerDeps): Promise<Partial<Outcome>> {
  const { stdout_bytes: stdoutBytes, stderr_bytes: stderrBytes } = taken.request.limits
  try {
    const { stdout, stderr, isWhole } = await taken.streamed()
    return { stdout: viewOf(stdout, stdoutBytes, isWhole), stderr: viewOf(stderr, stderrBytes, isWhole) }
  } catch (error) {
    logger.warn(
      { err: error, execution_id: taken.executionId },
      'what a lost attempt had streamed cannot be read',
    )
    return {}
  }
}

/** Cuts at a UTF-8 edge. Counts the streamed bytes, because further output is unknown. */
function viewOf(text: string, most: number, isWhole: boolean): OutputView {
  const bytes = Buffer.from(text)
  const kept = new TextDecoder().decode(bytes.subarray(0, most), { stream: true })
  return { text: kept, bytes: bytes.length, truncated: !isWhole || bytes.length > most, ref: null }
}
