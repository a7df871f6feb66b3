/**
 * An execution wherever it is: live in the queue, or ended in the store. The queue's answer wins while it has one,
 * since a result is visible there first; the store keeps it after the queue forgot it.
 */
import {
  CofferdamError,
  type Artifact,
  type AuditRow,
  type ExecutionId,
  type ExecutionResult,
  type ExecutionState,
} from '@cofferdam/contract'
import type { RouteContext } from './route-context.ts'

/** What the store keeps of an ended execution. */
export interface EndedExecution {
  result: ExecutionResult
  artifactRefs: (Artifact & { ref: string })[]
  /** The audit row of its last attempt. */
  last: AuditRow
}

/**
 * The state of an execution that `tenant` (null: anybody) may see, and whether the queue still knows it.
 * Throws `not_found`, also for other tenants' executions.
 */
export async function findState(
  context: RouteContext,
  tenant: string | null,
  id: ExecutionId,
): Promise<{ state: ExecutionState; live: boolean }> {
  const state = await context.producer.get(id)
  if (state !== null && tenant !== null && state.tenant_id !== tenant) throw notFound()
  if (state !== null && (state.status !== 'ended' || state.result !== null)) return { state, live: true }
  const ended = await findEnded(context, tenant, id)
  if (ended !== null) return { state: stateOf(ended), live: state !== null }
  if (state === null) throw notFound()
  return { state, live: true }
}

/** What the store knows of an ended execution; null when it has none that `tenant` (null: anybody) may see. */
export async function findEnded(
  context: RouteContext,
  tenant: string | null,
  id: ExecutionId,
): Promise<EndedExecution | null> {
  const found = await context.store.findExecution(tenant, id)
  const last = found?.audit.at(-1)
  if (found === null || last === undefined) return null
  return { result: found.result, artifactRefs: found.artifactRefs, last }
}

/**
 * The same, when the execution must have ended. Throws `not_found`, or `conflict` while it has not ended.
 */
export async function requireEnded(
  context: RouteContext,
  tenant: string | null,
  id: ExecutionId,
): Promise<EndedExecution> {
  const ended = await findEnded(context, tenant, id)
  if (ended !== null) return ended
  await findState(context, tenant, id)
  throw new CofferdamError('conflict', 'The execution has not ended; follow its events or wait for it.')
}

/** The state of an execution that only the store remembers. */
function stateOf({ last, result }: EndedExecution): ExecutionState {
  return {
    execution_id: result.execution_id,
    tenant_id: last.tenant_id,
    agent_id: last.agent_id,
    status: 'ended',
    attempt: last.attempt,
    enqueued_at: new Date(Date.parse(last.started_at) - last.queue_ms).toISOString(),
    started_at: last.started_at,
    position: null,
    eta_ms: null,
    result,
  }
}

/** The same words whether an execution never was, is gone, or is somebody else's. */
export const notFound = (): CofferdamError =>
  new CofferdamError('not_found', 'There is no execution of that id.')
