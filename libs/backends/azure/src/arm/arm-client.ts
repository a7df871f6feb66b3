/**
 * A REST client of Azure Resource Manager (ARM). A session pool needs a group, the pool and role assignments.
 * The SDK for them is 14 MB and lacks half of the pool's settings. Every call may be repeated, because PUT
 * and DELETE name their resource.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { retryAfterMs } from '@cofferdam/backend-remote'

/** The audience of tokens for the management plane of the public cloud. */
export const ARM_AUDIENCE = 'https://management.azure.com'

export interface TokenSource {
  /** Rejects with `backend_unavailable` if there is no token, or with the reason of `signal`. */
  get(audience: string, signal: AbortSignal): Promise<string>
  /** Reports that the service refused this token. */
  refused(audience: string, token: string): void
}

export interface ArmSettings {
  /** Without a trailing slash. */
  endpoint: string
  audience: string
  /** The time for one call and its answer, in milliseconds. */
  callMs: number
  /**
   * The pause between polls, and before the first retry of a call, unless the service names one. In
   * milliseconds. Each further retry waits one such pause longer.
   */
  retryMs: number
  /** The longest operation, in milliseconds. Creating a pool takes minutes. */
  operationMs: number
}

export const ARM_DEFAULTS: ArmSettings = {
  endpoint: 'https://management.azure.com',
  audience: ARM_AUDIENCE,
  callMs: 60_000,
  retryMs: 5_000,
  operationMs: 15 * 60_000,
}

export interface ArmAnswer {
  status: number
  headers: Headers
  /** Undefined if there was no body, or it was not JSON. */
  body: unknown
}

export interface ArmCall {
  method: 'GET' | 'PUT' | 'DELETE'
  /** The path from `/subscriptions` on, with its api-version. */
  path: string
  body?: object
}

export interface ArmClient {
  readonly settings: ArmSettings
  /** Sends a call. Returns 404 as an answer. Throws ArmFailure for every other status from 300 on. */
  send(call: ArmCall, signal: AbortSignal): Promise<ArmAnswer>
  /** Sends GET to a URL from an answer. Refuses another origin, because the token goes with the request. */
  follow(url: string, signal: AbortSignal): Promise<ArmAnswer>
}

const TRIES = 5
/** Far above our largest answer, the list of a group's resources. */
const MAX_BODY = 4 * 1024 * 1024
const errorSchema = z.object({ error: z.object({ code: z.string(), message: z.string() }) })

/**
 * A failed ARM call or operation, with ARM's code or ours (such as `NoAnswer`). The message quotes ARM's
 * message, shortened, and never the token.
 */
export class ArmFailure extends CofferdamError {
  /** HTTP status of the answer. 0 if no answer caused the failure. */
  readonly status: number
  readonly armCode: string
  constructor(what: string, status: number, armCode: string, message: string, cause?: unknown) {
    super('backend_unavailable', `Azure: ${what}: ${armCode} (${status}): ${message.slice(0, 500)}`, {
      details: { azure_code: armCode, azure_status: status },
      ...(cause === undefined ? {} : { cause }),
    })
    this.status = status
    this.armCode = armCode
  }
}

/** Creates the client. It asks `tokens` before every call. */
export function createArmClient(settings: ArmSettings, tokens: TokenSource): ArmClient {
  const { endpoint, audience } = settings

  async function once(what: string, url: string, call: Omit<ArmCall, 'path'>, signal: AbortSignal) {
    const token = await tokens.get(audience, signal)
    const response = await fetch(url, {
      method: call.method,
      // A redirect would send the token elsewhere.
      redirect: 'error',
      headers: {
        authorization: `Bearer ${token}`,
        ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
      signal: AbortSignal.any([signal, AbortSignal.timeout(settings.callMs)]),
    })
    const body = await bodyOf(what, response)
    if (response.status === 401) tokens.refused(audience, token)
    return { status: response.status, headers: response.headers, body }
  }

  async function repeated(url: string, call: Omit<ArmCall, 'path'>, signal: AbortSignal): Promise<ArmAnswer> {
    const what = `${call.method} ${new URL(url).pathname}`
    for (let attempt = 1; ; attempt += 1) {
      let failure: ArmFailure
      let waitMs = settings.retryMs * attempt
      try {
        const answer = await once(what, url, call, signal)
        if (answer.status < 300 || answer.status === 404) return answer
        const { code, message } = errorSchema.safeParse(answer.body).data?.error ?? {
          code: 'Unknown',
          message: 'no error body',
        }
        failure = new ArmFailure(what, answer.status, code, message)
        // A refused token is replaced once.
        const mayPass =
          answer.status === 429 || answer.status >= 500 || (answer.status === 401 && attempt === 1)
        if (!mayPass) throw failure
        waitMs = askedPauseMs(answer.headers) ?? (answer.status === 401 ? 0 : waitMs)
      } catch (error) {
        signal.throwIfAborted()
        if (error instanceof CofferdamError) throw error
        failure = new ArmFailure(what, 0, 'NoAnswer', 'no answer came', error)
      }
      if (attempt === TRIES) throw failure
      await sleep(waitMs, undefined, { signal })
    }
  }

  return {
    settings,
    send: ({ path, ...call }, signal) => repeated(endpoint + path, call, signal),
    follow: async (url, signal) => {
      if (URL.parse(url)?.origin !== new URL(endpoint).origin)
        throw new ArmFailure('an operation', 0, 'ForeignUrl', 'its URL leads to another origin')
      return await repeated(url, { method: 'GET' }, signal)
    },
  }
}

async function bodyOf(what: string, response: Response): Promise<unknown> {
  let text = ''
  const decoder = new TextDecoder()
  for await (const part of response.body ?? []) {
    text += decoder.decode(part as Uint8Array, { stream: true })
    if (text.length > MAX_BODY)
      throw new ArmFailure(what, response.status, 'TooLarge', 'the answer is too large')
  }
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Returns the pause that ARM asks for in milliseconds, at most a minute, or null. */
export function askedPauseMs(headers: Headers): number | null {
  const askedMs = retryAfterMs(headers.get('retry-after'))
  return askedMs === null ? null : Math.min(60_000, askedMs)
}
