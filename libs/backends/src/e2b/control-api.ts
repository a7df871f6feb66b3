/**
 * E2B's control API as far as a backend needs it. A create is sent again only when it was refused (429), never when its
 * answer was lost: whoever asked for it then looks for it by its metadata. All other calls may be repeated.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { z } from 'zod'

/** A refused call is made three times at most; the worker has other backends and the queue has patience. */
const ATTEMPTS = 3
/** A server that asks for more is out of service for us. */
const LONGEST_PAUSE_MS = 10_000
const PAUSE_MS = 500
/** No answer that we read is larger; a page of sandboxes has 100 entries. */
const ANSWER_MAX = 4 * 1024 * 1024
const PAGES_MAX = 1000

const createdSchema = z.object({
  sandboxID: z.string().regex(/^[A-Za-z0-9-]{1,64}$/),
  envdAccessToken: z.string().max(4096).nullish(),
  domain: z.string().max(255).nullish(),
})
export type Created = z.output<typeof createdSchema>

const listedSchema = z.array(
  z.object({
    sandboxID: createdSchema.shape.sandboxID,
    metadata: z.record(z.string(), z.string()).nullish(),
  }),
)
export type Listed = z.output<typeof listedSchema>[number]

const errorSchema = z.object({ code: z.int().optional(), message: z.string() })

export interface ControlApi {
  /** Resolves when the sandbox takes its first call. Throws `backend_unavailable` | `sandbox_open_failed`. */
  create(
    wish: { template: string; lifeMs: number; metadata: Record<string, string> },
    signal: AbortSignal,
  ): Promise<Created>
  /** Lets it live so long from now on. Throws `sandbox_lost` when it is gone. */
  keep(id: string, lifeMs: number): Promise<void>
  /** One that runs, with what opens its envd; it lives so long from now on at least. Throws `sandbox_lost` when it is gone. */
  connect(id: string, lifeMs: number, signal: AbortSignal): Promise<Created>
  /** False when there was none (any more). */
  kill(id: string): Promise<boolean>
  /** All running or paused ones whose metadata has these entries. */
  list(metadata: Record<string, string>): Promise<Listed[]>
  /** One short call, to see whether service and key are good. */
  ping(signal: AbortSignal): Promise<void>
}

interface Answer {
  status: number
  text: string
  headers: Headers
}

/** Creates a client; `apiKey` is asked for at every call. */
export function createControlApi(options: {
  origin: string
  apiKey: () => Promise<string>
  timeoutMs: number
}): ControlApi {
  async function send(
    method: string,
    path: string,
    body: unknown,
    signal: AbortSignal | null,
  ): Promise<Answer> {
    const timeout = AbortSignal.timeout(options.timeoutMs)
    const response = await fetch(new URL(path, options.origin), {
      method,
      headers: { 'X-API-KEY': await options.apiKey(), 'Content-Type': 'application/json' },
      signal: signal === null ? timeout : AbortSignal.any([signal, timeout]),
      redirect: 'error',
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: response.status, text: await bounded(response), headers: response.headers }
  }

  /** Answers of 2xx, and of the statuses in `also`. */
  async function call(
    method: string,
    path: string,
    { body, signal = null, also = [], repeats = true }: CallOptions = {},
  ): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      const answer = await send(method, path, body, signal).catch((error: unknown) => {
        signal?.throwIfAborted()
        if (!repeats || attempt >= ATTEMPTS || isCofferdamError(error)) throw unreachable(error)
        return null
      })
      if (answer !== null && (ok(answer.status) || also.includes(answer.status))) return answer
      const mayRepeat = answer === null || answer.status === 429 || (repeats && answer.status >= 500)
      const pauseMs = answer === null ? PAUSE_MS * attempt : pauseOf(answer, attempt)
      if (answer !== null && (!mayRepeat || attempt >= ATTEMPTS || pauseMs > LONGEST_PAUSE_MS))
        throw refused(answer)
      await sleep(pauseMs, undefined, { signal: signal ?? undefined }).catch(() => signal?.throwIfAborted())
    }
  }

  /** Of one that is going (409) no more is to be had than of one that is gone. */
  async function living(
    id: string,
    action: 'timeout' | 'connect',
    lifeMs: number,
    signal: AbortSignal | null,
  ): Promise<Answer> {
    const body = { timeout: seconds(lifeMs) }
    const answer = await call('POST', `/sandboxes/${id}/${action}`, { body, signal, also: [404, 409] })
    if (ok(answer.status)) return answer
    throw new CofferdamError('sandbox_lost', `E2B: sandbox ${id} is gone.`)
  }

  async function list(metadata: Record<string, string>): Promise<Listed[]> {
    const found: Listed[] = []
    let next: string | null = null
    // The filter is a query of its own inside of the query: encoded twice.
    const filter = new URLSearchParams(metadata).toString()
    for (let page = 0; page < PAGES_MAX; page++) {
      const query = new URLSearchParams({ metadata: filter, state: 'running,paused', limit: '100' })
      if (next !== null) query.set('nextToken', next)
      const answer = await call('GET', `/v2/sandboxes?${query.toString()}`)
      found.push(...parsed(listedSchema, answer))
      next = answer.headers.get('x-next-token')
      if (next === null || next === '') return found
    }
    throw new CofferdamError('backend_unavailable', 'E2B: the list of sandboxes does not end.')
  }

  return {
    async create({ template, lifeMs, metadata }, signal) {
      const body = {
        templateID: template,
        timeout: seconds(lifeMs),
        secure: true,
        // The only way out is the worker's proxy, over the agent's channel.
        allow_internet_access: false,
        metadata,
      }
      return parsed(createdSchema, await call('POST', '/v2/sandboxes', { body, signal, repeats: false }))
    },
    async keep(id, lifeMs) {
      await living(id, 'timeout', lifeMs, null)
    },
    connect: async (id, lifeMs, signal) => parsed(createdSchema, await living(id, 'connect', lifeMs, signal)),
    kill: async (id) => ok((await call('DELETE', `/sandboxes/${id}`, { also: [404] })).status),
    list,
    async ping(signal) {
      await call('GET', '/v2/sandboxes?limit=1', { signal })
    },
  }
}

interface CallOptions {
  body?: unknown
  signal?: AbortSignal | null
  /** Statuses besides 2xx that are answers. */
  also?: readonly number[]
  /** False: only what was refused may be sent again. */
  repeats?: boolean
}

const ok = (status: number): boolean => status >= 200 && status < 300
const seconds = (ms: number): number => Math.ceil(ms / 1000)

/** `Retry-After` in seconds where there is one; it often is missing. */
function pauseOf({ headers }: Answer, attempt: number): number {
  const asked = Number(headers.get('retry-after') ?? Number.NaN)
  return Number.isFinite(asked) && asked >= 0 ? asked * 1000 : PAUSE_MS * 2 ** attempt
}

async function bounded(response: Response): Promise<string> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of response.body ?? []) {
    size += part.length
    if (size > ANSWER_MAX)
      throw new CofferdamError('protocol_violation', `E2B: an answer above ${ANSWER_MAX} bytes.`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

function parsed<Schema extends z.ZodType>(schema: Schema, { text }: Answer): z.output<Schema> {
  try {
    return schema.parse(JSON.parse(text))
  } catch (error) {
    throw new CofferdamError('protocol_violation', 'E2B: an answer is not what its API describes.', {
      cause: error,
    })
  }
}

function unreachable(error: unknown): CofferdamError {
  if (isCofferdamError(error)) return error
  return new CofferdamError('backend_unavailable', 'E2B: the control API does not answer.', { cause: error })
}

/** The service's own words name templates and limits, never keys. */
function refused({ status, text }: Answer): CofferdamError {
  const parsedError = errorSchema.safeParse(parsedJson(text))
  const said = parsedError.success ? parsedError.data.message.slice(0, 300) : `HTTP ${status}`
  if (status === 401 || status === 403)
    return new CofferdamError('backend_unavailable', `E2B refuses the API key: ${said}`, {
      details: { status },
    })
  if (status === 429 || status >= 500)
    return new CofferdamError('backend_unavailable', `E2B takes no more for now: ${said}`, {
      details: { status },
    })
  return new CofferdamError('sandbox_open_failed', `E2B refused: ${said}`, { details: { status } })
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
