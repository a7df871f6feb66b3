/** One call to a session pool by plain fetch: what it says, and its answer as far as it came, within bounds. */
import { CofferdamError } from '@cofferdam/contract'
import { boundedBody, retryAfterMs } from '@cofferdam/backend-remote'

/** An answer that we read: a file of 8 MiB as base64 in JSON, and some. */
const ANSWER_MAX = 16 * 1024 * 1024

export interface PoolCall {
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  query?: Record<string, string>
  /** The session; left out where the pool itself is asked. */
  identifier?: string
  json?: unknown
  bytes?: Uint8Array
  /** Content type of `bytes`. */
  type?: string
  /** Making the call twice is as good as once. */
  isRepeatable: boolean
  /** It may begin a session. Any other call looks whether there still is one before it is made again, for it would get an empty one. */
  allocates?: boolean
  /** It is held open by the other side until something happens. */
  isPoll?: boolean
  /** Ends the call; default the settings' `api_timeout_ms`. */
  timeoutMs?: number
  /** For so long it is made again, beyond the usual tries, where the pool throttles or does not answer: something runs that waits for it. */
  patienceMs?: number
  /** Of the answer; default ANSWER_MAX. */
  maxBytes?: number
  signal?: AbortSignal
}

export interface PoolAnswer {
  status: number
  type: string
  body: Buffer
}

/** With what the service says of when to come again; null where it says nothing. */
export type TimedAnswer = PoolAnswer & { retryAfterMs: number | null }

/** No answer came, or not all of it: what was asked for may have been done. */
export class LostAnswer extends CofferdamError {
  constructor(cause: unknown) {
    super('backend_unavailable', 'Azure: the pool does not answer.', { cause })
  }
}

/** What is asked of a session after its end would begin another one. */
export const sessionEnded = (): CofferdamError =>
  new CofferdamError('sandbox_lost', 'Azure: the session was ended.')

/**
 * Resolves with whatever was answered, refusals too. Throws `LostAnswer`, `protocol_violation` above the bound, or once `stop` is aborted
 * that the session was ended.
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
      // A redirect would take the token to another place.
      redirect: 'error',
      signal: AbortSignal.any([stop, timeout]),
    })
    const type = response.headers.get('content-type') ?? ''
    const bytes = await boundedBody('Azure', response.body, call.maxBytes ?? ANSWER_MAX)
    // A proxy may cut an answer and still call it whole, put a page of its own in its place, or give up waiting for it.
    if (response.ok && type.includes('json') && json(bytes) === null) throw new Error('the answer is cut')
    if (response.ok && type.includes('text/html')) throw new Error('the answer is somebody else’s page')
    if (response.status === 408) throw new Error('the answer did not come in time')
    const asked = retryAfterMs(response.headers.get('retry-after'))
    return { status: response.status, type, body: bytes, retryAfterMs: asked }
  } catch (error) {
    if (error instanceof CofferdamError) throw error
    // Ended on this side: made again it would begin another one.
    if (stop.aborted) throw sessionEnded()
    throw new LostAnswer(error)
  }
}

/** JSON of an answer; null where it is none. */
export function json(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return null
  }
}
