/** One execution with everything that is known of it. */
import type { AuditRow, ExecutionState, ExecutionTrace, ExecutionWhy, Operations } from '@cofferdam/client'
import { read } from '../../api/call.ts'
import { useResource, type Resource } from '../../api/use-resource.ts'

/** Milliseconds between two readings of a live execution. Events report its start and its end sooner. */
const LIVE_MS = 3000
/** A worker stores the spans shortly after the end. */
const TRACE_MS = 3000

/** Its state, read again while it lives. */
export function useExecution(id: string, isEnded: boolean): Resource<ExecutionState> {
  return useResource(
    id,
    (signal) => read<ExecutionState>(`/v1/executions/${encodeURIComponent(id)}`, { signal }),
    isEnded ? null : LIVE_MS,
  )
}

/** Why it waits, or why it ran and ended as it did. */
export function useWhy(state: ExecutionState): Resource<ExecutionWhy> {
  return useResource(
    `${state.execution_id} ${state.status}`,
    (signal) => read<ExecutionWhy>(`/v1/executions/${state.execution_id}/why`, { signal }),
    state.status === 'ended' ? null : LIVE_MS,
  )
}

/** Its spans. Empty where none are kept. */
export function useTrace(state: ExecutionState, isComplete: boolean): Resource<ExecutionTrace> {
  return useResource(
    `${state.execution_id} ${state.status}`,
    (signal) => read<ExecutionTrace>(`/v1/executions/${state.execution_id}/trace`, { signal }),
    isComplete ? null : TRACE_MS,
  )
}

/** Its audit rows, the last attempt first. */
export function useAuditRows(state: ExecutionState): Resource<readonly AuditRow[]> {
  return useResource(`${state.execution_id} ${state.status} ${state.attempt}`, async (signal) => {
    const page = await read<Operations['listInvocations']['result']>('/v1/audit/invocations', {
      query: { execution_id: state.execution_id },
      signal,
    })
    return page.invocations.toSorted((one, other) => other.attempt - one.attempt)
  })
}
