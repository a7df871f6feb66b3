/** The client over the HTTP API. It repeats reads, cancel and enqueue when an answer is lost. */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import {
  acceptedSchema,
  CofferdamError,
  executionStateSchema,
  parseOfAnyRelease,
  resultSchema,
  type Accepted,
  type ExecutionId,
  type ExecutionRequestInput,
  type ExecutionResult,
  type ExecutionState,
} from '@cofferdam/contract'
import { DEFAULT_WAIT_MS, type CancelStatus, type Client } from './client.ts'
import { askRepeatedly, isTransient, type HttpTarget } from './http-call.ts'
import { streamEvents } from './stream-events.ts'

export interface HttpClientOptions {
  /** Address of the API, such as `http://127.0.0.1:7070`. */
  baseUrl: string
  /** `cfd_…` */
  apiKey: string
  /** Replaces the global fetch. */
  fetch?: typeof fetch
}

/** How long the server may wait. Load balancers commonly close idle connections after 60 s. */
const SERVER_WAIT_MS = 30_000
/** The answer to a wait may come this much later. */
const SLACK_MS = 15_000
/** Polling period. It grows to the last value, so a long wait costs one request per second. */
const POLL_MS = { first: 50, last: 1000 }

export function createHttpClient({ baseUrl, apiKey, fetch: fetchOf = fetch }: HttpClientOptions): Client {
  const closing = new AbortController()
  const target: HttpTarget = { baseUrl, apiKey, fetch: fetchOf, closed: closing.signal }

  /** POST /executions, with an idempotency key so that the call can be repeated after a lost answer. */
  async function post(
    input: ExecutionRequestInput,
    waitMs: number,
    signal?: AbortSignal,
  ): Promise<{ result: ExecutionResult } | { accepted: Accepted }> {
    const body = { ...input, idempotency_key: input.idempotency_key ?? randomUUID() }
    const query = waitMs > 0 ? `?wait=${waitMs}ms` : ''
    const answer = await askRepeatedly(target, {
      method: 'POST',
      path: `/executions${query}`,
      body,
      signal,
      timeoutMs: waitMs + SLACK_MS,
    })
    return answer.status === 200
      ? { result: parseOfAnyRelease(resultSchema, answer.body) }
      : { accepted: parseOfAnyRelease(acceptedSchema, answer.body) }
  }

  async function get(id: ExecutionId, signal?: AbortSignal): Promise<ExecutionState | null> {
    try {
      const { body } = await askRepeatedly(target, { method: 'GET', path: `/executions/${id}`, signal })
      return parseOfAnyRelease(executionStateSchema, body)
    } catch (error) {
      if (error instanceof CofferdamError && error.code === 'not_found') return null
      throw error
    }
  }

  /** Polls until it has ended. An outage of the API only costs time. */
  async function poll(
    id: ExecutionId,
    deadlineMs: number,
    signal?: AbortSignal,
  ): Promise<ExecutionResult | null> {
    for (let periodMs = POLL_MS.first; ; periodMs = Math.min(POLL_MS.last, periodMs * 1.5)) {
      const state = await get(id, signal).catch((error: unknown) => {
        if (!isTransient(error) || performance.now() >= deadlineMs) throw error
        return undefined
      })
      if (state === null) throw new CofferdamError('not_found', `no execution ${id}`)
      if (state?.result != null) return state.result
      if (state?.status === 'ended') throw new CofferdamError('not_found', `the result of ${id} is gone`)
      const leftMs = deadlineMs - performance.now()
      if (leftMs <= 0) return null
      await pauseFor(Math.min(periodMs, leftMs), signal)
    }
  }

  const close = async (): Promise<void> => closing.abort()

  return {
    async enqueue(input) {
      const answer = await post(input, 0)
      // Without `wait` the API only accepts, so a result means that the execution had ended before.
      return 'accepted' in answer ? answer.accepted : endedAs(answer.result)
    },
    async run(input, { timeoutMs = DEFAULT_WAIT_MS, signal } = {}) {
      const deadlineMs = performance.now() + timeoutMs
      const answer = await post(input, Math.min(timeoutMs, SERVER_WAIT_MS), signal)
      if ('result' in answer) return answer.result
      const { execution_id } = answer.accepted
      const result = await poll(execution_id, deadlineMs, signal)
      if (result === null) throw new CofferdamError('wait_timeout', undefined, { details: { execution_id } })
      return result
    },
    wait: (id, { timeoutMs = DEFAULT_WAIT_MS, signal } = {}) =>
      poll(id, performance.now() + timeoutMs, signal),
    stream: (id, options = {}) => streamEvents(target, id, options),
    get: (id) => get(id),
    async cancel(id, reason) {
      try {
        const { body } = await askRepeatedly(target, {
          method: 'POST',
          path: `/executions/${id}/cancel`,
          body: reason === undefined ? {} : { reason },
        })
        return (body as { status: CancelStatus }).status
      } catch (error) {
        if (error instanceof CofferdamError && error.code === 'not_found') return 'not_found'
        throw error
      }
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

const endedAs = ({ execution_id }: ExecutionResult): Accepted => ({
  execution_id,
  status: 'ended',
  position: null,
  eta_ms: null,
  deduplicated: true,
})

async function pauseFor(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await pause(ms, undefined, signal === undefined ? {} : { signal })
  } catch {
    // The timer's own AbortError hides the reason.
    throw signal?.reason
  }
}
