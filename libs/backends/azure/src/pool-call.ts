/** Makes one call to a session pool and reads its bounded answer. */
import { CofferdamError } from '@cofferdam/contract'
import { boundedBody, retryAfterMs } from '@cofferdam/backend-remote'

/** The largest answer: a file of 8 MiB as base64 in JSON, and some. */
const ANSWER_MAX = 16 * 1024 * 1024

export interface PoolCall {
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  query?: Record<string, string>
  /** The session's identifier. Absent in calls to the pool itself. */
  identifier?: string
  json?: unknown
  bytes?: Uint8Array
  /** Content type of `bytes`. */
  type?: string
  /** True if making the call twice has no second effect. */
  isRepeatable: boolean
  /**
   * True if the call may create a session. Before any other call is repeated after a lost answer or a server
   * error, the session is looked up, because an unknown identifier would get an empty one.
   */
  allocates?: boolean
  /**
   * True for a poll: the answer is held back until there is something to send, or the query's `wait` has
   * passed.
   */
  isPoll?: boolean
  /** The time for the call, default `api_timeout_ms` of the settings. */
  timeoutMs?: number
  /** How long to keep retrying a throttled or unanswered call, because a running program waits. */
  patienceMs?: number
  /** The largest answer, default ANSWER_MAX. */
  maxBytes?: number
  signal?: AbortSignal
}

export interface PoolAnswer {
  status: number
  type: string
  body: Buffer
}

/** An answer and the pause that the service asks for, or null. */
export type TimedAnswer = PoolAnswer & { retryAfterMs: number | null }

/** No complete answer came. The request may have been carried out. */
export class LostAnswer extends CofferdamError {
  constructor(cause: unknown) {
    super('backend_unavailable', 'Azure: the pool does not answer.', { cause })
  }
}

/** A call to an ended session would create another one. */
export const sessionEnded = (): CofferdamError =>
  new CofferdamError('sandbox_lost', 'Azure: the session was ended.')

/**
 * Resolves with any answer, including refusals. Throws `LostAnswer`, `protocol_violation` above the bound, or
 * `sessionEnded` once `stop` is aborted.
 */
export async function request(
  pool: { endpoint: string; timeoutMs: number },
  call: PoolCall,
  token: string,
  stop: AbortSignal,
): Promise<TimedAnswer> {
  const url = new URL(pool.endpoint + call.path)
  for (const [name, value] of Object.entries(call.query ?? {})) url.searchParams.set(name, value)
  if (call.identifier !== undefined) url.searchParams.set('identifier', call.identifier)
  const timeout = AbortSignal.timeout(call.timeoutMs ?? pool.timeoutMs)
  const body = call.json === undefined ? (call.bytes as Uint8Array<ArrayBuffer>) : JSON.stringify(call.json)
  try {
    const response = await fetch(url, {
      method: call.method,
      headers: {
        Authorization: `Bearer ${token}`,
        ...(call.json === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...(call.bytes === undefined ? {} : { 'Content-Type': call.type ?? 'application/octet-stream' }),
      },
      ...(body === undefined ? {} : { body }),
      // A redirect would send the token elsewhere.
      redirect: 'error',
      signal: AbortSignal.any([stop, timeout]),
    })
    const type = response.headers.get('content-type') ?? ''
    const bytes = await boundedBody('Azure', response.body, call.maxBytes ?? ANSWER_MAX)
    // A proxy may cut an answer without saying so, replace it by a page of its own, or time out.
    if (response.ok && type.includes('json') && json(bytes) === null) throw new Error('the answer is cut')
    if (response.ok && type.includes('text/html')) throw new Error('the answer is somebody else’s page')
    if (response.status === 408) throw new Error('the answer did not come in time')
    const asked = retryAfterMs(response.headers.get('retry-after'))
    return { status: response.status, type, body: bytes, retryAfterMs: asked }
  } catch (error) {
    if (error instanceof CofferdamError) throw error
    // This side ended the session. A retry would create another one.
    if (stop.aborted) throw sessionEnded()
    throw new LostAnswer(error)
  }
}

/** Parses the JSON of an answer. Returns null if it is not JSON. */
export function json(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return null
  }
}
