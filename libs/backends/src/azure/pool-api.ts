/**
 * Calls to one session pool by plain fetch: token, identifier, bounded answers, and the service's refusals as errors that say whether
 * anything happened. A call whose answer was lost is made again only where that has no second effect.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { SESSIONS_AUDIENCE, type Tokens } from './tokens.ts'

/** An answer that we read: a file of 8 MiB as base64 in JSON, and some. */
const ANSWER_MAX = 16 * 1024 * 1024
const ATTEMPTS = 4
const PAUSE_MS = 250
/** A service that asks for more is out of service for us: the queue has more patience than a worker's slot. */
const LONGEST_PAUSE_MS = 10_000
/** The management calls of both kinds of pool. */
export const MANAGEMENT_VERSION = '2025-10-02-preview'
/** A session that is ended waits so long for what is on its way to it: less than the executor waits for the end (5 s). */
const SETTLE_MS = 3000
/** After a role was granted it takes minutes until it holds everywhere. */
const ROLE_SPREADS_MS = 10 * 60_000
const ROLE_PAUSE_MS = 30_000

const errorSchema = z.object({
  error: z.object({
    code: z.string().max(200),
    message: z.string().optional(),
    target: z.string().max(200).nullish(),
    traceId: z.string().max(200).nullish(),
  }),
})

export interface PoolCall {
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  query?: Record<string, string>
  /** The session; left out where the pool itself is asked. */
  identifier?: string
  json?: unknown
  bytes?: Uint8Array
  form?: FormData
  /** Making the call twice is as good as once. */
  isRepeatable: boolean
  /** It may begin a session. Any other call looks whether there still is one before it is made again, for it would get an empty one. */
  allocates?: boolean
  /** It is held open by the other side until something happens. */
  isPoll?: boolean
  /** Ends the call; default the settings' `api_timeout_ms`. */
  timeoutMs?: number
  signal?: AbortSignal
}

export interface PoolAnswer {
  status: number
  type: string
  body: Buffer
}

export interface PoolApi {
  readonly endpoint: string
  /** Resolves for 2xx, and for what a container itself answers (`isOwn`). Throws what `refusalOf` says, or `LostAnswer`. */
  call(this: void, call: PoolCall, isOwn?: (answer: PoolAnswer) => boolean): Promise<PoolAnswer>
  /**
   * Ends a session by `work`, after all calls to it that are on their way have come back: one that arrived later would silently begin
   * another session. Callers that gave up do not stop a call on its way.
   */
  ending<T>(identifier: string, work: () => Promise<T>): Promise<T>
}

/** No answer came, or not all of it: what was asked for may have been done. */
export class LostAnswer extends CofferdamError {
  constructor(cause: unknown) {
    super('backend_unavailable', 'Azure: the pool does not answer.', { cause })
  }
}

/** Creates the client of one pool's management endpoint. */
export function createPoolApi(parts: {
  endpoint: string
  kind: 'container' | 'interpreter'
  tokens: Tokens
  timeoutMs: number
  /** Epoch milliseconds; null when 403 is never waited for. */
  roleGrantedAtMs: number | null
  rolePauseMs?: number
}): PoolApi {
  const { endpoint, tokens } = parts
  const underWay = new Map<string, Set<UnderWay>>()

  /** One request. It goes on when its caller gives up, until it is answered or its session is ended. */
  async function once(call: PoolCall, token: string): Promise<PoolAnswer> {
    call.signal?.throwIfAborted()
    const stop = new AbortController()
    const answer = request(call, token, stop.signal)
    const { identifier, isPoll = false, signal } = call
    if (identifier !== undefined) track(identifier, { isPoll, stop, settled: answer.catch(() => undefined) })
    return signal === undefined ? await answer : await orAborted(answer, signal)
  }

  function track(identifier: string, one: UnderWay): void {
    const all = underWay.get(identifier) ?? new Set()
    underWay.set(identifier, all.add(one))
    void one.settled.then(() => {
      all.delete(one)
      if (all.size === 0 && underWay.get(identifier) === all) underWay.delete(identifier)
    })
  }

  async function request(call: PoolCall, token: string, stop: AbortSignal): Promise<PoolAnswer> {
    const url = new URL(endpoint + call.path)
    for (const [name, value] of Object.entries(call.query ?? {})) url.searchParams.set(name, value)
    if (call.identifier !== undefined) url.searchParams.set('identifier', call.identifier)
    const timeout = AbortSignal.timeout(call.timeoutMs ?? parts.timeoutMs)
    const body =
      call.json !== undefined
        ? JSON.stringify(call.json)
        : (call.form ?? (call.bytes as Uint8Array<ArrayBuffer>))
    try {
      const response = await fetch(url, {
        method: call.method,
        headers: {
          Authorization: `Bearer ${token}`,
          ...(call.json === undefined ? {} : { 'Content-Type': 'application/json' }),
          ...(call.bytes === undefined ? {} : { 'Content-Type': 'application/octet-stream' }),
        },
        ...(body === undefined ? {} : { body }),
        // A redirect would take the token to another place.
        redirect: 'error',
        signal: AbortSignal.any([stop, timeout]),
      })
      const type = response.headers.get('content-type') ?? ''
      const bytes = await bounded(response)
      // A proxy may cut an answer and still call it whole.
      if (response.ok && type.includes('json') && json(bytes) === null) throw new Error('the answer is cut')
      return { status: response.status, type, body: bytes, ...retryAfterOf(response) }
    } catch (error) {
      if (error instanceof CofferdamError) throw error
      throw new LostAnswer(error)
    }
  }

  /** Throws `sandbox_lost` where the session is gone; any other trouble is the next call's. */
  async function refuseGone({ identifier, allocates }: PoolCall): Promise<void> {
    if (identifier === undefined || allocates === true) return
    const isContainer = parts.kind === 'container'
    const look: PoolCall = {
      method: isContainer ? 'POST' : 'GET',
      path: isContainer ? '/.management/getSession' : '/session',
      query: { 'api-version': MANAGEMENT_VERSION, identifier },
      isRepeatable: false,
    }
    await api.call(look).catch((error: unknown) => {
      if (saysGone(error))
        throw new CofferdamError('sandbox_lost', 'Azure: the session is gone.', { cause: error })
    })
  }

  const api: PoolApi = {
    endpoint,
    async ending(identifier, work) {
      const all = [...(underWay.get(identifier) ?? [])]
      const bound = AbortSignal.timeout(SETTLE_MS)
      // A poll came to its session long ago, and ends with it.
      await orAborted(
        Promise.all(all.filter(({ isPoll }) => !isPoll).map(({ settled }) => settled)),
        bound,
      ).catch(() => undefined)
      try {
        return await work()
      } finally {
        for (const { stop } of all) stop.abort()
      }
    },
    async call(call, isOwn = () => false) {
      const never = new AbortController().signal
      const signal = call.signal ?? never
      let hasNewToken = false
      for (let attempt = 1; ; attempt += 1) {
        const token = await tokens.get(SESSIONS_AUDIENCE, signal)
        let answer: PoolAnswer & { retryAfterMs?: number }
        try {
          answer = await once(call, token)
        } catch (error) {
          if (!(error instanceof LostAnswer) || !call.isRepeatable || attempt >= ATTEMPTS) throw error
          await refuseGone(call)
          await pause(PAUSE_MS * attempt, signal)
          continue
        }
        if ((answer.status >= 200 && answer.status < 300) || isOwn(answer)) return answer
        if (answer.status === 401 && !hasNewToken) {
          hasNewToken = true
          tokens.refused(SESSIONS_AUDIENCE, token)
          continue
        }
        if (answer.status === 403 && isSpreading(parts.roleGrantedAtMs)) {
          tokens.refused(SESSIONS_AUDIENCE, token)
          await pause(parts.rolePauseMs ?? ROLE_PAUSE_MS, signal)
          continue
        }
        const waitMs = answer.retryAfterMs ?? PAUSE_MS * 2 ** attempt
        // Refused before anything was done; a server's own failure says nothing of that.
        const mayRepeat = answer.status === 429 || (answer.status >= 500 && call.isRepeatable)
        if (!mayRepeat || attempt >= ATTEMPTS || waitMs > LONGEST_PAUSE_MS)
          throw refusalOf(answer, call.identifier !== undefined)
        if (answer.status >= 500) await refuseGone(call)
        await pause(waitMs, signal)
      }
    },
  }
  return api
}

interface UnderWay {
  isPoll: boolean
  stop: AbortController
  settled: Promise<unknown>
}

async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const onAbort = (): void => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  work.catch(() => undefined)
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

const isSpreading = (grantedAtMs: number | null): boolean =>
  grantedAtMs !== null && Date.now() - grantedAtMs < ROLE_SPREADS_MS

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted())
}

/** True when the service says that there is no such session (any more). */
export const saysGone = (error: unknown): boolean =>
  error instanceof CofferdamError &&
  (error.details['azure'] === 'SessionWithIdentifierNotFound' || error.details['status'] === 404)

/** The service's refusal as an error of ours. Its message is left out: it may quote the identifier. */
function refusalOf(
  { status, body, retryAfterMs }: PoolAnswer & { retryAfterMs?: number },
  isOfSession: boolean,
): CofferdamError {
  const parsed = errorSchema.safeParse(json(body))
  const { code, target, traceId } = parsed.success ? parsed.data.error : { code: '' }
  const details = {
    status,
    azure: code,
    ...(target == null ? {} : { target }),
    ...(traceId == null ? {} : { trace: traceId }),
    ...(retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs }),
  }
  const [ours, words] = classOf(status, code, isOfSession)
  return new CofferdamError(ours, `Azure: ${words} (${status}${code === '' ? '' : ` ${code}`}).`, { details })
}

function classOf(status: number, code: string, isOfSession: boolean): [CofferdamError['code'], string] {
  if (code === 'SessionWithIdentifierNotFound') return ['sandbox_lost', 'the session is gone']
  // Its time is up, or it is being taken down: in no case does it do what was asked.
  if (isOfSession && (status === 409 || status === 410)) return ['sandbox_lost', 'the session is over']
  if (status === 401) return ['backend_unavailable', 'the pool does not take the token']
  if (status === 403)
    return ['backend_unavailable', 'the role "Azure ContainerApps Session Executor" on the pool is missing']
  if (status === 413) return ['payload_too_large', 'the upload is too large']
  if (status === 429) return ['backend_unavailable', 'the pool has no session free, or throttles']
  if (status >= 500) return ['backend_unavailable', 'the pool failed']
  return ['sandbox_open_failed', 'the pool refuses the call']
}

function retryAfterOf(response: Response): { retryAfterMs?: number } {
  const seconds = Number(response.headers.get('retry-after') ?? Number.NaN)
  return Number.isFinite(seconds) && seconds >= 0 ? { retryAfterMs: seconds * 1000 } : {}
}

async function bounded(response: Response): Promise<Buffer> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of response.body ?? []) {
    size += part.length
    if (size > ANSWER_MAX)
      throw new CofferdamError('protocol_violation', `Azure: an answer above ${ANSWER_MAX} bytes.`)
    parts.push(part)
  }
  return Buffer.concat(parts, size)
}

/** JSON of an answer; null where it is none. */
export function json(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return null
  }
}
