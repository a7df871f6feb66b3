/**
 * A loopback server that stands in for the data plane of Amazon Bedrock AgentCore Code Interpreter. README.md
 * lists what it supports and how it was checked.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { listen } from '@cofferdam/backend-remote/double'
import { Failure, fail, reply } from './failure.ts'
import { delayed, FaultList, httpFailure, type Fault, type Operation } from './faults.ts'
import { endOf, invoke, toolCall } from './invoke.ts'
import { detail, page, stopped, summary } from './session-answers.ts'
import { Sessions } from './sessions.ts'
import { refusal, type Secrets } from './sigv4.ts'

/** Limits of the call log, for a double that runs for days: number of calls, characters per call. */
const CALLS_MAX = 1000
const CALL_TEXT_MAX = 64 * 1024
/** The service's own limit: a payload of at most 100 MB. */
const BODY_MAX = 100_000_000
const SESSION_HEADER = 'x-amzn-code-interpreter-session-id'

const ROUTES: readonly (readonly [string, RegExp, Operation])[] = [
  ['PUT', /^\/code-interpreters\/([^/]+)\/sessions\/start$/, 'StartCodeInterpreterSession'],
  ['POST', /^\/code-interpreters\/([^/]+)\/tools\/invoke$/, 'InvokeCodeInterpreter'],
  ['PUT', /^\/code-interpreters\/([^/]+)\/sessions\/stop$/, 'StopCodeInterpreterSession'],
  ['GET', /^\/code-interpreters\/([^/]+)\/sessions\/get$/, 'GetCodeInterpreterSession'],
  ['POST', /^\/code-interpreters\/([^/]+)\/sessions\/list$/, 'ListCodeInterpreterSessions'],
]

export interface AgentcoreOptions {
  /** 0 picks any free port. */
  port?: number
  /** Keys that requests must be signed with. With null, the double checks only the form of a signature. */
  secrets?: Secrets | null
  /** Calls of one operation that the double accepts per second. Default: 30, as at the service. */
  ratePerSecond?: number
  /** Handles requests to the control plane. Returns false for a request that it does not know. */
  fallback?: (request: IncomingMessage, body: Buffer, response: ServerResponse) => Promise<boolean>
}

export interface AgentcoreDouble extends AsyncDisposable {
  /** Value for `endpoint` or `AWS_ENDPOINT_URL_BEDROCK_AGENTCORE`. */
  readonly origin: string
  readonly secrets: Secrets | null
  /** IDs of the interpreters that exist; null accepts every well-formed ID. */
  interpreters: Pick<Set<string>, 'has'> | null
  /** Whether the text of a running cell or command arrives as separate events before the result. */
  previews: boolean
  ratePerSecond: number
  readonly sessions: Sessions
  /** Sets the faults of the next calls and drops those that have not happened yet. */
  fault(...faults: Fault[]): void
  readonly faultsLeft: readonly Fault[]
  /** The latest accepted calls, oldest first. */
  readonly calls: readonly Call[]
}

export interface Call {
  operation: Operation
  sessionId: string
  tool: string
  /** The beginning of the body as received. */
  text: string
  /** Value of the `traceparent` header; empty without it. */
  traceparent: string
  /** The client's port, which identifies the connection. */
  port: number
}

/** Keys from AWS's documentation. They are valid nowhere. */
export const EXAMPLE_SECRETS: Secrets = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
}

/** Starts the double on a loopback port. */
export async function startAgentcoreDouble(options: AgentcoreOptions = {}): Promise<AgentcoreDouble> {
  const sessions = new Sessions()
  const faults = new FaultList()
  const calls: Call[] = []
  const secrets = options.secrets === undefined ? EXAMPLE_SECRETS : options.secrets
  const buckets = new Map<string, { tokens: number; atMs: number }>()
  const server = await listen(options.port ?? 0, (request, response) => {
    response.setHeader('x-amzn-requestid', randomUUID())
    answer(request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy()
      else
        fail(
          response,
          error instanceof Failure ? error : new Failure('InternalServerException', String(error)),
        )
    })
  })
  const double: AgentcoreDouble = {
    origin: `http://127.0.0.1:${server.port}`,
    secrets,
    interpreters: null,
    previews: false,
    ratePerSecond: options.ratePerSecond ?? 30,
    sessions,
    calls,
    fault: (...list) => faults.set(list),
    get faultsLeft() {
      return faults.left
    },
    async [Symbol.asyncDispose]() {
      await sessions.close()
      await server[Symbol.asyncDispose]()
    },
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bytesOf(request)
    const path = (request.url ?? '/').split('?')[0] ?? '/'
    if (path === '/_double/faults') {
      faults.set(JSON.parse(body.toString()) as Fault[])
      return void response.writeHead(200).end(JSON.stringify(faults.left))
    }
    const route = ROUTES.find(([method, pattern]) => method === request.method && pattern.test(path))
    if (route === undefined) {
      if ((await options.fallback?.(request, body, response)) === true) return
      throw new Failure('UnknownOperationException', `${request.method} ${path}`)
    }
    const unsigned = refusal(request, body, { service: 'bedrock-agentcore', secrets })
    if (unsigned !== null) throw new Failure('AccessDeniedException', unsigned)
    const [, pattern, operation] = route
    take(operation)
    const named = decodeURIComponent(pattern.exec(path)?.[1] ?? '')
    const id = idIn(named)
    if (id === null || double.interpreters?.has(id) === false)
      throw new Failure('ResourceNotFoundException', `Code interpreter ${named} not found`)
    await operate({ operation, interpreter: named, request, response, body })
  }

  function take(operation: Operation): void {
    const now = performance.now()
    const bucket = buckets.get(operation) ?? { tokens: double.ratePerSecond, atMs: now }
    const refilled = bucket.tokens + ((now - bucket.atMs) / 1000) * double.ratePerSecond
    const tokens = Math.min(double.ratePerSecond, refilled) - 1
    buckets.set(operation, { tokens: Math.max(0, tokens), atMs: now })
    if (tokens < 0) throw new Failure('ThrottlingException', 'Rate exceeded')
  }

  async function operate({ operation, interpreter, request, response, body }: Operated): Promise<void> {
    const json = body.length === 0 ? {} : parsed(body)
    const sessionId =
      new URL(request.url ?? '/', 'http://double').searchParams.get('sessionId') ??
      String(request.headers[SESSION_HEADER] ?? '')
    const text = body.toString('utf8', 0, CALL_TEXT_MAX)
    const { traceparent = '' } = request.headers
    const port = request.socket.remotePort ?? 0
    calls.push({ operation, sessionId, tool: toolOf(json), text, traceparent: String(traceparent), port })
    if (calls.length > CALLS_MAX) calls.shift()
    if (operation === 'InvokeCodeInterpreter') {
      if (!/^[0-9a-zA-Z]{1,40}$/.test(sessionId))
        throw new Failure('ValidationException', 'The session id is missing', 'FieldValidationFailed')
      const call = toolCall(json)
      const fault = faults.take(operation, call.name, body.toString())
      const session = sessions.find(interpreter, sessionId)
      if (session.ended !== null) throw endOf(session, 'stopped')
      return await invoke(session, call, { fault, previews: double.previews, response })
    }
    const fault = faults.take(operation, '', text)
    if (fault?.kind === 'delay') await delayed(fault)
    if (fault?.kind === 'http') throw httpFailure(fault)
    if (fault?.kind === 'cut-before') return void response.destroy()
    const administered = await administer(operation, interpreter, sessionId, json)
    const said = fault?.kind === 'empty-token' ? { nextToken: '', ...administered } : administered
    if (fault?.kind === 'cut-after') return void response.destroy()
    reply(response, 200, said)
  }

  async function administer(
    operation: Operation,
    interpreter: string,
    sessionId: string,
    json: Record<string, unknown>,
  ): Promise<object> {
    if (operation === 'StartCodeInterpreterSession') return summary(await sessions.start(interpreter, json))
    if (operation === 'ListCodeInterpreterSessions') return page(sessions.of(interpreter), json)
    const session = sessions.find(interpreter, sessionId)
    if (operation === 'GetCodeInterpreterSession') return detail(session)
    if (session.ended !== null) throw endOf(session, 'stopped')
    await session.end('stopped')
    return stopped(session)
  }
  return double
}

/**
 * Returns the ID in an identifier, which is an ID or its ARN. An ID is that of AWS's own interpreter, or ends
 * in ten characters chosen by the service. Returns null for a bare name, because the service finds no
 * interpreter by its name. Shapes of IDs: API_StartCodeInterpreterSession of the AWS API reference; of ARNs:
 * awslabs/open-agentic-platform, spikes/agentcore-code-interpreter/FINDINGS.md.
 */
function idIn(identifier: string): string | null {
  const id = identifier.replace(
    /^arn:aws:bedrock-agentcore:[a-z0-9-]+:(?:aws|\d{12}):code-interpreter(?:-custom)?\//,
    '',
  )
  return /^(?:aws\.codeinterpreter\.v1|[a-zA-Z][a-zA-Z0-9_]{0,47}-[a-zA-Z0-9]{10})$/.test(id) ? id : null
}

interface Operated {
  operation: Operation
  interpreter: string
  request: IncomingMessage
  response: ServerResponse
  body: Buffer
}

const toolOf = ({ name }: Record<string, unknown>): string => (typeof name === 'string' ? name : '')

async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length
    if (size > BODY_MAX) throw new Failure('ValidationException', 'The payload is too large')
    parts.push(part)
  }
  return Buffer.concat(parts)
}

function parsed(body: Buffer): Record<string, unknown> {
  try {
    const json: unknown = JSON.parse(body.toString('utf8'))
    if (typeof json === 'object' && json !== null) return json as Record<string, unknown>
  } catch {
    // For text that is not JSON, the error below is thrown.
  }
  throw new Failure('ValidationException', 'The body is not a JSON object', 'CannotParse')
}
