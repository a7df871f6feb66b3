/** Turns a fetched BullMQ job, or the next execution assigned to this worker, into an owned execution. */
import {
  CofferdamError,
  ERRORS,
  isCofferdamError,
  StopReason,
  type ExecutionId,
  type ExecutionRequest,
} from '@cofferdam/contract'
import { interruptedOf } from './begun-mark.ts'
import { QUEUE_BOUNDS } from './bounds.ts'
import { composeUnstarted } from './ending.ts'
import { patiently } from './fenced-write.ts'
import { keysOf } from './cell.ts'
import { jobIdOf, releaseOf, type Lane } from './keys.ts'
import type { LaneJob } from './lane-source.ts'
import { hydrate } from './request-blobs.ts'
import { numberOrNull, runCoded, SCRIPTS, text, type Reply } from './scripts.ts'
import { createTaken, type HeldExecution, type TakenDeps } from './create-taken.ts'
import type { WorkerKind } from './worker-kind.ts'

export interface TakeDeps extends TakenDeps {
  /** What this worker can serve now. */
  kind: () => WorkerKind
}

/**
 * Takes the execution of a job. If the fetch has already taken it, `reply` is the answer. Returns null when
 * the job is stale: its execution ended, was put back or was released again. Also returns null when the
 * execution cannot run: it was taken too often without an ending, parts of its request are gone, or only a
 * later build reads it. Such an execution is ended here, so that every accepted execution has an ending.
 */
export async function take(
  job: LaneJob,
  deps: TakeDeps,
  reply: Reply[] | null = null,
): Promise<HeldExecution | null> {
  const { id, release } = releaseOf(job.jobId)
  if (reply !== null) return await ownedOf(id as ExecutionId, job, reply, deps)
  const { code, rest } = await patiently(() =>
    runCoded(deps.redis, SCRIPTS.take, keysOf(deps.redis).record + id, [
      id,
      release,
      deps.workerId,
      deps.kind().name,
    ]),
  )
  return code === 'taken' ? await ownedOf(id as ExecutionId, job, rest, deps) : null
}

/** Priority of assigned executions against the run queue (lua/take-assigned.lua). */
export type AssignedTurn = 'fair' | 'yield' | 'force'

/** `held` is null when the taken execution could not run and was ended. `left`: how many stay assigned. */
export type AssignedAnswer =
  | { code: 'taken'; held: HeldExecution | null; left: number }
  | { code: 'later' | 'none' }

/**
 * Takes the next execution assigned to this worker. Not repeated when Redis goes away: no heartbeat reports
 * an execution whose answer was lost, so the sweep releases it again after the lock time.
 */
export async function takeAssigned(lane: Lane, turn: AssignedTurn, deps: TakeDeps): Promise<AssignedAnswer> {
  const { code, rest } = await runCoded(deps.redis, SCRIPTS.takeAssigned, keysOf(deps.redis).window, [
    deps.workerId,
    lane,
    turn,
    deps.kind().name,
  ])
  if (code !== 'taken') return { code: code === 'later' ? 'later' : 'none' }
  const id = text(rest[11]) as ExecutionId
  const job = { lane, jobId: jobIdOf(id, numberOrNull(rest[12]) ?? 1), token: '' }
  return { code: 'taken', held: await ownedOf(id, job, rest, deps), left: numberOrNull(rest[13]) ?? 0 }
}

async function ownedOf(
  executionId: ExecutionId,
  job: LaneJob,
  reply: Reply[],
  deps: TakenDeps,
): Promise<HeldExecution | null> {
  const [fence, attempt, enqueued, now, traceparent, began, stored, cancelled, deliveries, tenant, older] =
    reply
  const request = await patiently(() => hydrate(deps.redis, text(stored))).catch(tooNew)
  const isReadable = request !== null && !(request instanceof CofferdamError)
  const held = createTaken(
    {
      executionId,
      request: isReadable ? request : unknownRequest(text(tenant)),
      attempt: numberOrNull(attempt) ?? 1,
      fence: numberOrNull(fence) ?? 0,
      enqueuedAtMs: numberOrNull(enqueued) ?? 0,
      takenAtMs: numberOrNull(now) ?? 0,
      traceparent: text(traceparent) === '' ? null : text(traceparent),
      interrupted: interruptedOf(text(began)),
      mayHaveRun: text(older) === '1' || (numberOrNull(deliveries) ?? 0) > 1,
      job,
    },
    deps,
  )
  if (text(cancelled) === '1') held.stop(new StopReason('cancelled'))
  if (request instanceof CofferdamError) {
    await endAs(held, 'provisioning', request.code, `${request.message} ${ERRORS[request.code].hint}`)
    return null
  }
  if (request === null) {
    await endAs(held, 'provisioning', 'request_lost', 'Parts of the request are no longer stored.')
    return null
  }
  if ((numberOrNull(deliveries) ?? 0) > QUEUE_BOUNDS.deliveriesMax) {
    const message = `No worker could end it: taken ${QUEUE_BOUNDS.deliveriesMax} times.`
    await endAs(held, 'worker_lost', 'too_many_deliveries', message)
    return null
  }
  return held
}

/** Returns the error if only a later build can read the record. Throws any other error. */
function tooNew(error: unknown): CofferdamError {
  if (isCofferdamError(error) && error.code === 'record_too_new') return error
  throw error
}

async function endAs(
  { taken }: HeldExecution,
  ending: 'provisioning' | 'worker_lost',
  reason: string,
  message: string,
): Promise<void> {
  const record = composeUnstarted({
    executionId: taken.executionId,
    attempt: taken.attempt,
    request: taken.request,
    ending,
    reason,
    message,
    enqueuedAtMs: taken.enqueuedAtMs,
    nowMs: taken.takenAtMs,
    traceparent: taken.traceparent ?? '',
  })
  await taken.settle(record, { slotMs: 0, outbox: true })
}

/** Replaces a request that cannot be read, so that its ending can be composed. */
function unknownRequest(tenantId: string): ExecutionRequest {
  return {
    tenant_id: tenantId,
    agent_id: 'unknown',
    program: { type: 'install' },
    environment: 'default-public',
  } as ExecutionRequest
}
