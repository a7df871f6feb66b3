/** Waits for the ending of an execution by asking for its state. */
import { CofferdamError } from '@cofferdam/contract/error-table'
import type { ExecutionResult, ExecutionState } from './wire.ts'
import { part } from './api.ts'
import { open, type HttpTarget } from './http-call.ts'
import { pause } from './pause.ts'
import { jsonOf, textOf } from './read-answer.ts'
import { isTransient } from './repeat.ts'

/** Polling period. It grows to the last value, so a long wait costs one request per second. */
const PERIOD_MS = { first: 50, last: 1000 }

/** Polls until it has ended, or `performance.now()` reaches `deadlineMs`: then null. Throws `not_found`. */
export type Polling = (
  id: string,
  deadlineMs: number,
  signal: AbortSignal | undefined,
) => Promise<ExecutionResult | null>

/** An outage of the API only costs time, up to the deadline. */
export function createPolling(target: HttpTarget): Polling {
  async function read(id: string, signal: AbortSignal | undefined): Promise<ExecutionState> {
    const answer = await open(target, { method: 'GET', path: `/executions/${part(id)}`, signal })
    try {
      return jsonOf(await textOf(answer.chunks())) as ExecutionState
    } finally {
      answer.end()
    }
  }
  return async (id, deadlineMs, signal) => {
    for (let periodMs = PERIOD_MS.first; ; periodMs = Math.min(PERIOD_MS.last, periodMs * 1.5)) {
      const state = await read(id, signal).catch((error: unknown) => {
        if (!isTransient(error) || performance.now() >= deadlineMs) throw error
        return undefined
      })
      if (state?.result != null) return state.result
      if (state?.status === 'ended') throw new CofferdamError('not_found', `The result of ${id} is gone.`)
      const leftMs = deadlineMs - performance.now()
      if (leftMs <= 0) return null
      await pause(Math.min(periodMs, leftMs), signal, target.closed)
    }
  }
}
