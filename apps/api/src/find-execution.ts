/**
 * Finds an execution: live in the queue, or ended in the store. The queue is asked first, because it has a
 * result first. The store keeps the result after the queue has deleted it.
 */
import {
  CofferdamError,
  type Artifact,
  type AuditRow,
  type ExecutionId,
  type ExecutionResult,
  type ExecutionState,
} from '@cofferdam/contract'
import { isCellAway } from '@cofferdam/queue'
import type { RouteContext } from './route-context.ts'

/** What the store keeps of an ended execution. */
export interface EndedExecution {
  result: ExecutionResult
  artifactRefs: (Artifact & { ref: string })[]
  /** Its request in the blob store. Null when it was not kept. */
  requestRef: string | null
  /** The audit row of its last attempt. */
  last: AuditRow
}

/**
 * Returns the state, and whether the queue still knows the execution. Throws `not_found`, also for an
 * execution that `tenant` may not see (null may see all).
 */
export async function findState(
  context: RouteContext,
  tenant: string | null,
  id: ExecutionId,
): Promise<{ state: ExecutionState; live: boolean }> {
  let state: ExecutionState | null
  try {
    state = await context.producer.get(id)
  } catch (error) {
    // The cell of the execution does not answer, but the store may have the result.
    const ended = isCellAway(error) ? await findEnded(context, tenant, id) : null
    if (ended === null) throw error
    return { state: stateOf(ended), live: false }
  }
  if (state !== null && tenant !== null && state.tenant_id !== tenant) throw notFound()
  if (state !== null && (state.status !== 'ended' || state.result !== null)) return { state, live: true }
  const ended = await findEnded(context, tenant, id)
  if (ended !== null) return { state: stateOf(ended), live: state !== null }
  if (state === null) throw notFound()
  return { state, live: true }
}

/** What the store keeps of an ended execution. Null when there is none that `tenant` (null: all) may see. */
export async function findEnded(
  context: RouteContext,
  tenant: string | null,
  id: ExecutionId,
): Promise<EndedExecution | null> {
  const found = await context.store.findExecution(tenant, id)
  const last = found?.audit.at(-1)
  if (found === null || last === undefined) return null
  const { result, artifactRefs, requestRef } = found
  return { result, artifactRefs, requestRef, last }
}

/**
 * Like `findEnded`, but throws `not_found` when there is none, `conflict` before the ending, and
 * `store_unavailable` while the record waits for Postgres.
 */
export async function requireEnded(
  context: RouteContext,
  tenant: string | null,
  id: ExecutionId,
): Promise<EndedExecution> {
  const ended = await findEnded(context, tenant, id)
  if (ended !== null) return ended
  const { state } = await findState(context, tenant, id)
  throw state.status === 'ended'
    ? new CofferdamError('store_unavailable', 'The execution has ended, but is not stored yet. Try again.')
    : new CofferdamError('conflict', 'The execution has not ended. Wait for it, then try again.')
}

/** The state of an execution that only the store still has. */
function stateOf({ last, result }: EndedExecution): ExecutionState {
  return {
    execution_id: result.execution_id,
    tenant_id: last.tenant_id,
    agent_id: last.agent_id,
    ...(last.program_kind === null ? {} : { program_kind: last.program_kind }),
    status: 'ended',
    ...(last.rerun_of === null ? {} : { rerun_of: last.rerun_of }),
    attempt: last.attempt,
    enqueued_at: new Date(Date.parse(last.started_at) - last.queue_ms).toISOString(),
    started_at: last.started_at,
    position: null,
    eta_ms: null,
    result,
  }
}

/** The same message whether an execution never existed, was deleted, or belongs to another tenant. */
export const notFound = (): CofferdamError =>
  new CofferdamError('not_found', 'There is no execution of that id.')
