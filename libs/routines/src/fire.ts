/**
 * Turns one trigger of a routine into one execution, or into a record of why not. The routine's row is
 * locked, so its triggers are decided one at a time, and each only once:
 *
 *   trigger is known ─► returns its stored outcome
 *   request is no longer valid ─► refused
 *   rule allow ─► enqueued            rule forbid, and an earlier run is not finished ─► skipped
 *   rule replace ─► earlier runs are cancelled and get a moment to end, then the new one is enqueued
 *
 * The execution's idempotency key comes from the trigger, so a crash between queue and table creates no
 * second execution.
 */
import {
  CofferdamError,
  executionRequestSchema,
  isCofferdamError,
  type ExecutionId,
  type ExecutionRequest,
  type RoutineId,
  type RoutineRun,
} from '@cofferdam/contract'
import type { Producer } from '@cofferdam/queue'
import type { Routines, RoutineTrigger, RoutineTurn, StoredRoutine } from '@cofferdam/store'

export interface FireDeps {
  routines: Pick<Routines, 'inTurn' | 'get' | 'runs'>
  producer: Pick<Producer, 'put' | 'get' | 'cancel' | 'wait'>
}

type Decision = Pick<RoutineRun, 'outcome' | 'reason' | 'execution_id'>

/**
 * Builds the trigger of a scheduled time. If a tick is delivered twice, both triggers have the same key, so
 * only one execution is made.
 */
export const tickOf = (scheduledAtMs: number): RoutineTrigger => ({
  key: String(scheduledAtMs),
  scheduledAtMs,
})

/** A replaced run has this long to end before the next one is enqueued. A cancel takes half a second. */
const REPLACED_MS = 5000

/**
 * Null if the routine does not exist. Throws if the queue or the store does not answer; the caller should
 * retry.
 */
export async function fireRoutine(
  deps: FireDeps,
  id: RoutineId,
  trigger: RoutineTrigger,
): Promise<RoutineRun | null> {
  await endReplaced(deps, id)
  return await deps.routines.inTurn(id, trigger, (turn) => decide(deps, turn, trigger))
}

async function decide(deps: FireDeps, turn: RoutineTurn, trigger: RoutineTrigger): Promise<Decision> {
  const { routine } = turn
  if (trigger.scheduledAtMs !== null && !routine.enabled)
    return { outcome: 'skipped', reason: 'The routine is disabled.', execution_id: null }
  const request = requestOf(routine, trigger)
  if (request === null)
    return {
      outcome: 'refused',
      reason: 'Its request is no longer valid here; write it again.',
      execution_id: null,
    }
  const alive = routine.concurrency === 'allow' ? [] : await living(deps, turn.recent)
  if (routine.concurrency === 'forbid' && alive.length > 0)
    return { outcome: 'skipped', reason: `${alive.join(', ')} has not ended.`, execution_id: null }
  const reason = alive.length === 0 ? null : `It replaces ${alive.join(', ')}.`
  for (const old of alive) await deps.producer.cancel(old, 'replaced by a newer run of its routine')
  try {
    const { execution_id } = await deps.producer.put(request)
    return { outcome: 'enqueued', reason, execution_id }
  } catch (error) {
    // The queue refused this request, and would refuse it again.
    if (isCofferdamError(error) && (error.code === 'queue_full' || error.code === 'idempotency_conflict'))
      return { outcome: 'refused', reason: error.message, execution_id: null }
    throw error
  }
}

/** Null when the request does not match the current schema. */
function requestOf(routine: StoredRoutine, trigger: RoutineTrigger): ExecutionRequest | null {
  const written = routine.request as { callback_url?: string }
  const callbackUrl = routine.callback_url ?? written.callback_url
  const parsed = executionRequestSchema.safeParse({
    ...written,
    tenant_id: routine.tenant_id,
    lane: 'routine',
    idempotency_key: `routine:${routine.routine_id}:${trigger.key}`,
    invocation_source: trigger.scheduledAtMs === null ? 'queue' : 'scheduled',
    ...(callbackUrl === undefined ? {} : { callback_url: callbackUrl }),
  })
  return parsed.success ? parsed.data : null
}

/** Runs before the routine's row is locked, so that nobody waits for the lock while a program ends. */
async function endReplaced(deps: FireDeps, id: RoutineId): Promise<void> {
  const routine = await deps.routines.get(null, id)
  if (routine?.concurrency !== 'replace') return
  const runs = await deps.routines.runs(null, id, 20)
  const recent = runs.flatMap(({ execution_id: one }) => (one === null ? [] : [one]))
  for (const old of await living(deps, recent)) {
    await deps.producer.cancel(old, 'replaced by a newer run of its routine')
    await deps.producer.wait(old, { timeoutMs: REPLACED_MS }).catch(ignoreMissing)
  }
}

async function living(deps: FireDeps, recent: readonly ExecutionId[]): Promise<ExecutionId[]> {
  const states = await Promise.all(recent.map((one) => deps.producer.get(one)))
  return recent.filter((_, index) => {
    const state = states[index]
    return state != null && state.status !== 'ended'
  })
}

function ignoreMissing(error: unknown): null {
  if (error instanceof CofferdamError && error.code === 'not_found') return null
  throw error
}
