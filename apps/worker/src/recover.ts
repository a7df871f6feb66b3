/**
 * An execution whose earlier owner began it and vanished (DESIGN §8): it is never run again by itself.
 *
 *   audit row of that attempt exists ─► the owner died between recording and settling: its record is the truth
 *   Redis came back without its last second, and has no trace of an attempt whose row exists ─► the same
 *   otherwise ─► the old sandbox is killed through its ref, the attempt ends worker_lost with what it had
 *   streamed: charged where its
 *                owner had told that the program was handed over, else not, since nothing shows that it ran
 */
import { effectivePolicy } from '@cofferdam/admission'
import {
  isCofferdamError,
  outcomeWithoutRun,
  type AttemptRecord,
  type Outcome,
  type OutputView,
  type TenantPolicy,
} from '@cofferdam/contract'
import type { Interrupted, Taken } from '@cofferdam/queue'
import { setTimeout as delay } from 'node:timers/promises'
import { admissionKey } from './admission-key.ts'
import { closeAttempt, publish } from './close-attempt.ts'
import { killLeftSandbox } from './kill-left-sandbox.ts'
import { settleUnleased } from './settle-unleased.ts'
import type { WorkerDeps } from './worker-deps.ts'

const HANDED_OVER =
  'The worker died after it had handed the program over to its sandbox. How far the program came is not known; it was not run again.'
const NOT_HANDED_OVER =
  'The worker died while it handed the program over to its sandbox, and nothing shows that the program ran. It was not run again, because it may have, and it is not charged.'

/** While Postgres is away nobody knows whether the dead owner had recorded; ask again this often. */
const STORE_POLL_MS = 1000

export async function recoverInterrupted(
  taken: Taken,
  interrupted: Interrupted,
  deps: WorkerDeps,
): Promise<void> {
  const recorded = await findRecord(taken, interrupted.attempt, deps)
  await killOldSandbox(taken, interrupted, deps)
  const key = { ...admissionKey(taken), attempt: interrupted.attempt }
  if (recorded !== null) return settleUnleased(key, await publish(taken, recorded, deps), deps)
  const policy = await policyNow(taken, deps)
  const outcome: Outcome = {
    ...(interrupted.handedOver
      ? outcomeWithoutRun('worker_lost', 'worker_lost', HANDED_OVER)
      : outcomeWithoutRun('worker_lost', 'not_handed_over', NOT_HANDED_OVER)),
    backend: interrupted.backend,
    isolation: interrupted.isolation,
    ...(interrupted.ref?.vendorRef === undefined ? {} : { vendorRef: interrupted.ref.vendorRef }),
    began: interrupted.handedOver,
    ...(policy === null ? {} : await printed(taken, deps)),
  }
  const closing = {
    chargedAtMs: interrupted.handedOver ? interrupted.chargedAtMs : null,
    startedAtMs: interrupted.startedAtMs,
    caps: null,
    retentionDays: policy?.tenant.retention_days ?? deps.defaultRetentionDays,
    ...policy,
  }
  await settleUnleased(key, await closeAttempt(taken, outcome, closing, deps), deps)
}

/** What was recorded of an attempt that an earlier owner or Redis left unpublished; true when it was, and is published now. */
export async function republishForgotten(taken: Taken, deps: WorkerDeps): Promise<boolean> {
  const recorded = await findRecord(taken, taken.attempt, deps)
  if (recorded === null) return false
  await settleUnleased(admissionKey(taken), await publish(taken, recorded, deps), deps)
  return true
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
      await delay(STORE_POLL_MS, undefined, { signal: taken.signal })
    }
  }
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

/** Null where it cannot be read: then nobody knows whether output has to be encrypted, and none is kept. */
async function policyNow(
  taken: Taken,
  deps: WorkerDeps,
): Promise<{ tenant: TenantPolicy; templateId: string | undefined } | null> {
  const facts = await deps.policies.read(taken.request).catch(() => null)
  if (facts === null || facts.tenant === null) return null
  const { tenant, template, templateId } = facts
  const sandbox = template?.tenant_id === tenant.tenant_id ? template.sandbox : null
  return { tenant: effectivePolicy(tenant, sandbox), templateId }
}

/** What callers have seen live of the attempt; nothing where that cannot be read. */
async function printed(taken: Taken, { logger }: WorkerDeps): Promise<Partial<Outcome>> {
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

/** Cut at a UTF-8 edge. The bytes are those that were streamed: what more the program wrote nobody knows. */
function viewOf(text: string, most: number, isWhole: boolean): OutputView {
  const bytes = Buffer.from(text)
  const kept = new TextDecoder().decode(bytes.subarray(0, most), { stream: true })
  return { text: kept, bytes: bytes.length, truncated: !isWhole || bytes.length > most, ref: null }
}
