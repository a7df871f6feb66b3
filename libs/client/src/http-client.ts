/** The client over the HTTP API. It repeats what may be repeated when an answer is lost. */
import { CofferdamError } from '@cofferdam/contract/error-table'
import { pause } from './pause.ts'
import { jsonOf, textOf } from './read-answer.ts'
import { isTransient } from './repeat.ts'
import type { Accepted, ExecutionRequest, ExecutionResult, ExecutionState } from './wire.ts'
import { createApi, part, type CallOptions } from './api.ts'
import { auditOf, type Audit } from './audit.ts'
import { DEFAULT_WAIT_MS, type CancelStatus, type Client, type ExecutionId } from './client.ts'
import { executionsOf, type Executions } from './executions.ts'
import { fleetOf, type Fleet } from './fleet.ts'
import { type HttpTarget, open } from './http-call.ts'
import { routinesOf, type Routines } from './routines.ts'
import { sessionsOf, type Sessions } from './sessions.ts'
import { streamEvents } from './stream-events.ts'
import { tenantsOf, type Tenants } from './tenants.ts'
import { workspacesOf, type Workspaces } from './workspaces.ts'

export interface ClientOptions {
  /** Address of the API, such as `http://127.0.0.1:7070`. */
  baseUrl: string
  /** `cfd_…` */
  apiKey: string
  /** Replaces the global fetch, for example to add a proxy. */
  fetch?: typeof fetch
  /** How long calls and streams are repeated while the API does not answer, in ms. Default 20,000. */
  retryForMs?: number
}

/** The whole API. Every method of the parts takes `{ signal }` last and throws as `Client` says. */
export interface HttpClient extends Client {
  get(id: ExecutionId, options?: CallOptions): Promise<ExecutionState | null>
  cancel(id: ExecutionId, reason?: string, options?: CallOptions): Promise<CancelStatus>
  executions: Executions
  sessions: Sessions
  routines: Routines
  workspaces: Workspaces
  tenants: Tenants
  audit: Audit
  fleet: Fleet
}

/** How long the server may wait. Load balancers commonly close idle connections after 60 s. */
const SERVER_WAIT_MS = 30_000
/** The client waits this much longer than the API does. */
const SLACK_MS = 15_000
/** A restart of the API takes about 1 s, a laptop's way back to its network some 10 s. */
const DEFAULT_RETRY_MS = 20_000

/**
 * Creates a client of the HTTP API.
 *
 * @example
 * await using client = createClient({ baseUrl: 'http://127.0.0.1:7070', apiKey })
 * const result = await client.run({
 *   tenant_id: 'acme',
 *   agent_id: 'agent-1',
 *   program: { type: 'script', language: 'python', source: 'print(1 + 1)' },
 * })
 */
export function createClient(options: ClientOptions): HttpClient {
  const closing = new AbortController()
  const target: HttpTarget = {
    baseUrl: options.baseUrl.replace(/\/+$/, ''),
    apiKey: options.apiKey,
    // Call the global fetch without `this`, because browsers reject any other call.
    fetch: options.fetch ?? ((...asked) => fetch(...asked)),
    closed: closing.signal,
    retryForMs: options.retryForMs ?? DEFAULT_RETRY_MS,
  }
  const api = createApi(target)
  const poll = createPolling(target)

  /** POST /executions, with an idempotency key so that the call can be repeated after a lost answer. */
  async function post(
    input: ExecutionRequest,
    waitMs: number,
    signal?: AbortSignal,
  ): Promise<{ result: ExecutionResult } | { accepted: Accepted }> {
    const { status, body } = await api.answer<ExecutionResult | Accepted>({
      method: 'POST',
      path: '/executions',
      query: { wait: waitMs > 0 ? `${waitMs}ms` : undefined },
      body: { ...input, idempotency_key: input.idempotency_key ?? crypto.randomUUID() },
      timeoutMs: waitMs + SLACK_MS,
      ...(signal === undefined ? {} : { signal }),
    })
    return status === 200 ? { result: body as ExecutionResult } : { accepted: body as Accepted }
  }

  const settle = async (accepted: Accepted, { signal }: { signal?: AbortSignal }): Promise<ExecutionResult> =>
    requireResult(accepted, await poll(accepted.execution_id, performance.now() + DEFAULT_WAIT_MS, signal))

  const close = async (): Promise<void> =>
    closing.abort(new CofferdamError('shutting_down', 'The client is closed.'))

  return {
    async enqueue(input, { signal } = {}) {
      const answer = await post(input, 0, signal)
      // Without `wait` the API only accepts, so a result means that the execution had ended before.
      return 'accepted' in answer ? answer.accepted : endedAs(answer.result)
    },
    async run(input, { timeoutMs = DEFAULT_WAIT_MS, signal } = {}) {
      const deadlineMs = performance.now() + timeoutMs
      const answer = await post(input, Math.min(timeoutMs, SERVER_WAIT_MS), signal)
      if ('result' in answer) return answer.result
      return requireResult(answer.accepted, await poll(answer.accepted.execution_id, deadlineMs, signal))
    },
    wait: (id, { timeoutMs = DEFAULT_WAIT_MS, signal } = {}) =>
      poll(id, performance.now() + timeoutMs, signal),
    stream: (id, options = {}) => streamEvents(target, part(id), options),
    async get(id, options) {
      const call = { method: 'GET', path: `/executions/${part(id)}`, ...options } as const
      return orElse(null, api.json<ExecutionState>(call))
    },
    async cancel(id, reason, options) {
      const path = `/executions/${part(id)}/cancel`
      const call = { method: 'POST', path, body: { reason }, ...options } as const
      const missing: { status: CancelStatus } = { status: 'not_found' }
      const { status } = await orElse(missing, api.json<{ status: CancelStatus }>(call))
      return status
    },
    executions: executionsOf(api),
    sessions: sessionsOf(api, settle),
    routines: routinesOf(api),
    workspaces: workspacesOf(api),
    tenants: tenantsOf(api),
    audit: auditOf(api, target),
    fleet: fleetOf(api, settle),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** Settles like `answer`, or with `missing` where the API answers `not_found`. */
async function orElse<T>(missing: T, answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof CofferdamError && error.code === 'not_found') return missing
    throw error
  }
}

function requireResult({ execution_id }: Accepted, result: ExecutionResult | null): ExecutionResult {
  if (result === null) throw new CofferdamError('wait_timeout', undefined, { details: { execution_id } })
  return result
}

const endedAs = ({ execution_id }: ExecutionResult): Accepted => ({
  execution_id,
  status: 'ended',
  position: null,
  eta_ms: null,
  deduplicated: true,
})

/** Polling period. It grows to the last value, so a long wait costs one request per second. */
const PERIOD_MS = { first: 50, last: 1000 }

/**
 * Polls until the execution has ended. Null when `performance.now()` reaches `deadlineMs`. Throws
 * `not_found`.
 */
type Polling = (
  id: string,
  deadlineMs: number,
  signal: AbortSignal | undefined,
) => Promise<ExecutionResult | null>

/** Polls the state of an execution. An outage of the API only costs time, up to the deadline. */
function createPolling(target: HttpTarget): Polling {
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
