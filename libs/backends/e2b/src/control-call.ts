/**
 * One call of E2B's control API. A refused call (429) is sent again after the requested pause. A call without
 * an answer or with a 5xx is sent again only if it may be repeated. No error shows the key.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { boundedBody } from '@cofferdam/backend-remote'
import { isGatewayPage } from './gateway-page.ts'
import { ATTEMPTS, pauseAfter } from './throttled.ts'
import { whyFailed } from './why-failed.ts'

/** No answer is larger: a page has 100 sandboxes. */
const ANSWER_MAX = 4 * 1024 * 1024

const errorSchema = z.object({ message: z.string() })

export interface Answer {
  status: number
  text: string
  headers: Headers
}

export interface CallOptions {
  body?: unknown
  signal?: AbortSignal | null
  /** Statuses besides 2xx that count as answers. */
  also?: readonly number[]
  /**
   * False for a call that creates something: it is retried only after a refusal, and an abort still waits for
   * its answer.
   */
  repeats?: boolean
}

export type Call = (method: string, path: string, options?: CallOptions) => Promise<Answer>

export const isOk = (status: number): boolean => status >= 200 && status < 300

/** Calls `apiKey` for each request. Throws `backend_unavailable` or `sandbox_open_failed` with the status. */
export function createCall(options: {
  origin: string
  apiKey: () => Promise<string>
  timeoutMs: number
}): Call {
  async function send(
    method: string,
    path: string,
    body: unknown,
    signal: AbortSignal | null,
  ): Promise<Answer> {
    const timeout = AbortSignal.timeout(options.timeoutMs)
    const key = await options.apiKey()
    const response = await fetch(new URL(path, options.origin), {
      method,
      headers: { 'X-API-KEY': key, 'Content-Type': 'application/json' },
      signal: signal === null ? timeout : AbortSignal.any([signal, timeout]),
      redirect: 'error',
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = (await boundedBody('E2B', response.body, ANSWER_MAX))
      .toString('utf8')
      .replaceAll(key, '<key>')
    if (isGatewayPage(response))
      throw new CofferdamError('backend_unavailable', 'E2B: a gateway answered in place of the control API.')
    return { status: response.status, text, headers: response.headers }
  }

  return async (method, path, { body, signal = null, also = [], repeats = true } = {}) => {
    for (let attempt = 1; ; attempt++) {
      signal?.throwIfAborted()
      const answer = await send(method, path, body, repeats ? signal : null).catch((error: unknown) => {
        signal?.throwIfAborted()
        if (!repeats || attempt >= ATTEMPTS || isCofferdamError(error)) throw unreachable(error)
        return null
      })
      if (answer !== null && (isOk(answer.status) || also.includes(answer.status))) return answer
      const mayRepeat = answer === null || answer.status === 429 || (repeats && answer.status >= 500)
      const pauseMs = mayRepeat ? pauseAfter(attempt, answer?.headers ?? null) : null
      if (answer !== null && pauseMs === null) throw refused(answer)
      await sleep(pauseMs ?? 0, undefined, { signal: signal ?? undefined }).catch(() =>
        signal?.throwIfAborted(),
      )
    }
  }
}

function unreachable(error: unknown): CofferdamError {
  if (isCofferdamError(error)) return error
  return new CofferdamError(
    'backend_unavailable',
    `E2B: the control API does not answer (${whyFailed(error)}).`,
    { cause: error },
  )
}

/** Quotes the service's message, because it names the template or limit that caused the refusal. */
function refused({ status, text }: Answer): CofferdamError {
  const parsed = errorSchema.safeParse(parsedJson(text))
  const said = parsed.success ? parsed.data.message.slice(0, 300) : `HTTP ${status}`
  const details = { status }
  if (status === 401 || status === 403)
    return new CofferdamError('backend_unavailable', `E2B refuses the API key: ${said}`, { details })
  if (status === 429)
    return new CofferdamError('backend_unavailable', `E2B takes no more for now: ${said}`, {
      details: { ...details, full: true },
    })
  if (status >= 500) return new CofferdamError('backend_unavailable', `E2B failed: ${said}`, { details })
  return new CofferdamError('sandbox_open_failed', `E2B refused: ${said}`, { details })
}

/** Null for anything but JSON. The parser's error would quote text that may be a token. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
