/** Cancels many executions, a few at a time, and reports the progress. */
import type { Operations } from '@cofferdam/client'
import { call } from '../../api/call.ts'
import { asFailure, type Failure } from '../../api/failure.ts'

/** Requests at one time. */
const AT_ONCE = 4

export interface Progress {
  done: number
  /** Number of executions that will not run. */
  cancelled: number
  /** Number of executions that were told to stop. */
  cancelling: number
  /** Number of executions that had ended before. */
  ended: number
  failed: number
  /** The last failure. Null if there was none. */
  failure: Failure | null
}

export const NOTHING_DONE: Progress = {
  done: 0,
  cancelled: 0,
  cancelling: 0,
  ended: 0,
  failed: 0,
  failure: null,
}

/** A reason is left out if it is empty. */
const bodyOf = (reason: string): { reason?: string } => (reason === '' ? {} : { reason })

/** Cancels one execution. */
export const cancelOne = (id: string, reason: string): Promise<Operations['cancelExecution']['result']> =>
  call('POST', `/v1/executions/${id}/cancel`, { body: bodyOf(reason) })

/**
 * Cancels each of `ids`. A failure of one does not stop the others. When aborted, begins no further request.
 */
export async function cancelMany(
  ids: readonly string[],
  reason: string,
  tell: (progress: Progress) => void,
  signal: AbortSignal,
): Promise<void> {
  const left = [...ids]
  let progress = NOTHING_DONE
  const work = async (): Promise<void> => {
    for (let id = left.shift(); id !== undefined && !signal.aborted; id = left.shift()) {
      try {
        const { status } = await cancelOne(id, reason)
        progress = { ...progress, [status]: progress[status] + 1 }
      } catch (error) {
        progress = { ...progress, failed: progress.failed + 1, failure: asFailure(error) }
      }
      progress = { ...progress, done: progress.done + 1 }
      tell(progress)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
}

/** Cancels all that a tenant, or one of its agents, has waiting or running. The API does it in steps. */
export async function cancelTenant(
  tenantId: string,
  agentId: string | undefined,
  reason: string,
  tell: (progress: Progress) => void,
  signal: AbortSignal,
): Promise<void> {
  let progress = NOTHING_DONE
  let cursor: string | null = null
  do {
    const body = { state: 'all', ...bodyOf(reason), ...(agentId === undefined ? {} : { agent_id: agentId }) }
    const step: Operations['cancelTenant']['result'] = await call(
      'POST',
      `/v1/tenants/${encodeURIComponent(tenantId)}/cancel`,
      { body: cursor === null ? body : { ...body, cursor } },
    )
    cursor = step.next_cursor
    progress = {
      ...progress,
      done: progress.done + step.cancelled + step.cancelling,
      cancelled: progress.cancelled + step.cancelled,
      cancelling: progress.cancelling + step.cancelling,
    }
    tell(progress)
  } while (cursor !== null && !signal.aborted)
}
