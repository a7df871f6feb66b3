/**
 * Takes a request to its route. Identifies the caller, checks the headers, applies injected faults, sends the
 * answer and records all of it. Anthropic publishes the statuses and types of most refusals, but not their
 * messages.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import type { ControlPlane, RequestRecord } from './control-plane.ts'
import { authorize, type Credential, type CredentialKind } from './credentials.ts'
import { delayBy, type Fault } from './faults.ts'
import { readBody, recordOf } from './incoming.ts'
import { newId } from './stamps-and-ids.ts'
import { badRequest, errorBody, notFound, typeOfStatus, WireError } from './wire-errors.ts'

export type Query = Readonly<Record<string, string | string[]>>

export interface Call {
  plane: ControlPlane
  credential: Credential
  /** Parts of the path, such as `sessionId`. */
  params: Readonly<Record<string, string>>
  query: Query
  /** Undefined without a body. */
  body: unknown
  headers: IncomingHttpHeaders
  /** Aborts when the client has gone. */
  signal: AbortSignal
}

export type Answer =
  | { json: unknown }
  | { zip: Buffer }
  | { stream: (response: ServerResponse, faults: readonly Fault[]) => void }

/** Answers with a value of a published type. */
export const json = <T>(value: T): Answer => ({ json: value })

export interface Route {
  /** Such as `work.poll`. Faults and records name it. */
  name: string
  method: 'GET' | 'POST' | 'DELETE'
  /** Such as `/v1/sessions/:sessionId`. */
  path: string
  takes: readonly CredentialKind[]
  /** Values of `anthropic-beta` of which a request must send one. */
  betas?: readonly string[]
  answer(call: Call): Answer | Promise<Answer>
}

/** The function that answers all requests. */
export function createRouter(plane: ControlPlane, routes: readonly Route[]) {
  const table = routes.map((route) => ({ route, pattern: patternOf(route.path) }))
  const find = (method: string, path: string): { route: Route; params: Record<string, string> } => {
    for (const { route, pattern } of table) {
      const found = route.method === method ? pattern.exec(path) : null
      if (found !== null) return { route, params: decoded(found.groups ?? {}) }
    }
    throw notFound(`this double has no ${method} ${path.slice(0, 200)}:`)
  }
  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? '/', 'http://double')
    const record = recordOf(request, url)
    plane.note(record)
    response.once('finish', () => {
      record.status = response.statusCode
    })
    try {
      const { route, params } = find(record.method, url.pathname)
      record.route = route.name
      await answer({ plane, request, response, route, params, record })
    } catch (error) {
      request.resume()
      sendError(response, error)
    }
  }
}

interface Visit {
  plane: ControlPlane
  request: IncomingMessage
  response: ServerResponse
  route: Route
  params: Record<string, string>
  record: RequestRecord
}

async function answer({ plane, request, response, route, params, record }: Visit): Promise<void> {
  const { headers } = request
  const credential = plane.keyring.identify(headers)
  record.credential = credential.kind
  record.itemId = credential.itemId ?? null
  requireHeaders(headers, route)
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const faults = plane.faults.of(route.name, record.path)
  const body = await readBody(request)
  const isActing = failFirst(faults, response)
  if (!isActing) return
  await delayBy(faults, 'before', gone.signal)
  authorize(credential, route.takes, {
    ...(params['environmentId'] === undefined ? {} : { environmentId: params['environmentId'] }),
    ...(params['workId'] === undefined ? {} : { itemId: params['workId'] }),
    ...(params['sessionId'] === undefined ? {} : { sessionId: params['sessionId'] }),
  })
  const { query } = record
  const answered = await route.answer({
    plane,
    credential,
    params,
    query,
    body,
    headers,
    signal: gone.signal,
  })
  await delayBy(faults, 'after', gone.signal)
  if (faults.some(({ kind }) => kind === 'drop')) response.destroy()
  else send(response, answered, faults)
}

/** Throws an injected status, or breaks the connection before the call acts. Returns whether to go on. */
function failFirst(faults: readonly Fault[], response: ServerResponse): boolean {
  for (const fault of faults) {
    if (fault.kind === 'status') {
      if (fault.retry_after_ms !== undefined)
        response.setHeader('retry-after-ms', String(fault.retry_after_ms))
      throw new WireError(fault.status, typeOfStatus(fault.status), 'injected by the double')
    }
    if (fault.kind !== 'drop' || fault.acts) continue
    response.destroy()
    return false
  }
  return true
}

function requireHeaders(headers: IncomingHttpHeaders, { betas, path }: Route): void {
  // The double's own endpoints need none of Anthropic's headers.
  if (path.startsWith('/_double/')) return
  if (headers['anthropic-version'] === undefined) throw badRequest('anthropic-version: header is required')
  const sent = String(headers['anthropic-beta'] ?? '').split(',')
  const isSent = sent.some((beta) => betas?.includes(beta.trim()) === true)
  if (betas !== undefined && !isSent)
    throw badRequest(`anthropic-beta: this endpoint needs ${betas.join(' or ')}`)
}

function send(response: ServerResponse, answered: Answer, faults: readonly Fault[]): void {
  response.setHeader('request-id', newId('req'))
  if ('stream' in answered) return answered.stream(response, faults)
  const [type, body] =
    'zip' in answered
      ? (['application/zip', answered.zip] as const)
      : (['application/json', JSON.stringify(answered.json)] as const)
  response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body)
}

function sendError(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) return void response.destroy()
  const known =
    error instanceof WireError
      ? error
      : new WireError(500, 'api_error', error instanceof Error ? error.message : String(error))
  const id = newId('req')
  response
    .writeHead(known.status, { 'content-type': 'application/json', 'request-id': id })
    .end(JSON.stringify(errorBody(known, id)))
}

const patternOf = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll(/:(\w+)/g, (_, name: string) => `(?<${name}>[^/]+)`)}$`)

function decoded(groups: Readonly<Record<string, string>>): Record<string, string> {
  try {
    return Object.fromEntries(Object.entries(groups).map(([name, text]) => [name, decodeURIComponent(text)]))
  } catch {
    throw badRequest('the path is not valid')
  }
}
