/** Calls of the API. The browser adds the cookie of the sign-in. No key is in this page. */
import { signal } from '@preact/signals'
import type { Query } from '../address/address.ts'
import { asFailure, failureOf, Failure } from './failure.ts'

/** Whether the last call got an answer. `unknown` before the first. */
export const connection = signal<'unknown' | 'live' | 'lost'>('unknown')

/** Set when an answer says that nobody is signed in (any more). */
export const signedOut = signal(false)

export interface CallOptions {
  query?: Query
  body?: unknown
  signal?: AbortSignal
}

/** A path below the origin with its query. */
export function callAddress(path: string, query: Query = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (value !== null && value !== undefined && value !== '') search.set(name, value)
  const text = search.toString()
  return text === '' ? path : `${path}?${text}`
}

/** Sends a request and resolves with the answer if it is 2xx. Throws a Failure otherwise. */
export async function send(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  const { query = {}, body, signal: aborted = null } = options
  // A foreign page cannot send this header without a preflight, which the API does not grant.
  const headers: Record<string, string> = method === 'GET' ? {} : { 'x-cofferdam-ui': '1' }
  if (body !== undefined) headers['content-type'] = 'application/json'
  const init: RequestInit = { method, headers, signal: aborted, credentials: 'same-origin' }
  if (body !== undefined) init.body = JSON.stringify(body)
  const answer = await fetch(callAddress(path, query), init).catch((error: unknown) => {
    if (aborted?.aborted === true) throw error
    connection.value = 'lost'
    throw asFailure(error)
  })
  connection.value = 'live'
  if (answer.ok) return answer
  if (answer.status === 401 && path !== '/ui/session') signedOut.value = true
  throw await failureOf(answer)
}

/** Sends a request and resolves with the JSON of its answer. Undefined if there is none (204). */
export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const answer = await send(method, path, options)
  if (answer.status === 204) return undefined as T
  try {
    return (await answer.json()) as T
  } catch (error) {
    if (options.signal?.aborted === true) throw error
    throw new Failure({ code: 'unexpected', status: answer.status, message: 'The answer broke off.' })
  }
}

/** Sends a GET and resolves with the JSON of its answer. */
export const read = <T>(path: string, options: CallOptions = {}): Promise<T> => call<T>('GET', path, options)
