/**
 * The control plane of AgentCore Code Interpreter and the roles of IAM, at the same origin as the data plane.
 * The data plane's double passes requests that it does not know to this code. The data plane knows an
 * interpreter as soon as it is READY.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { startAgentcoreDouble, EXAMPLE_SECRETS, type AgentcoreDouble } from '../agentcore-double.ts'
import { Failure, reply } from '../failure.ts'
import { refusal, type Secrets } from '../sigv4.ts'
import { SERVICE_LIKE, type ControlFault, type ControlOperation, type Knobs } from './knobs.ts'
import { answerXml, IamFailure, refusalXml, Roles } from './roles.ts'
import { Stock } from './stock.ts'

const WHERE = { region: 'us-east-1', account: '123456789012' }
const IAM_ACTIONS: readonly string[] = [
  'CreateRole',
  'GetRole',
  'PutRolePolicy',
  'DeleteRolePolicy',
  'DeleteRole',
]
/** Length of the call log. */
const CALLS_MAX = 10_000

export interface AccountDouble extends AsyncDisposable {
  /** Value for `control_url`, `iam_url` and the data plane's `endpoint`. */
  readonly origin: string
  readonly region: string
  readonly account: string
  readonly secrets: Secrets
  readonly data: AgentcoreDouble
  readonly stock: Stock
  readonly roles: Roles
  /** Tests change these at any time. */
  readonly knobs: Knobs
  /** Sets the faults of the next calls and drops those that have not happened yet. */
  fault(...faults: ControlFault[]): void
  /** Operations of the latest signed calls, oldest first, including those that were then refused. */
  readonly calls: readonly ControlOperation[]
}

/** Starts a double of an AWS account, with AgentCore and IAM, on a loopback port. 0 picks any free port. */
export async function startAccountDouble(port = 0): Promise<AccountDouble> {
  const knobs = { ...SERVICE_LIKE }
  const roles = new Roles(knobs, WHERE.account)
  const stock = new Stock(knobs, roles, WHERE)
  const calls: ControlOperation[] = []
  let faults: ControlFault[] = []
  const data = await startAgentcoreDouble({ port, fallback: answer })
  // Computed on every call of the data plane, because an interpreter goes from CREATING to READY by itself.
  data.interpreters = { has: (id) => stock.ready().includes(id) }

  async function answer(request: IncomingMessage, body: Buffer, response: ServerResponse): Promise<boolean> {
    const call = operationOf(request, body)
    if (call === null) return false
    const isIam = IAM_ACTIONS.includes(call.operation)
    try {
      const signed = { service: isIam ? 'iam' : 'bedrock-agentcore', secrets: EXAMPLE_SECRETS }
      const unsigned = refusal(request, body, signed)
      if (unsigned !== null) throw refused(isIam, 'AccessDenied', unsigned)
      calls.push(call.operation)
      if (calls.length > CALLS_MAX) calls.shift()
      const fault = take(call.operation)
      if (fault?.error !== undefined) throw refused(isIam, fault.error, 'on purpose')
      const said = isIam ? roles.act(call.operation, call.form) : operate(call, body)
      if (fault !== null) response.destroy()
      else if (typeof said === 'string')
        response.writeHead(200, { 'Content-Type': 'text/xml' }).end(answerXml(call.operation, said))
      else reply(response, statusOf(call.operation), said)
    } catch (error) {
      if (!(error instanceof IamFailure)) throw error
      response.writeHead(error.status, { 'Content-Type': 'text/xml' }).end(refusalXml(error))
    }
    return true
  }

  function operate({ operation, id, query }: Call, body: Buffer): object {
    switch (operation) {
      case 'CreateCodeInterpreter':
        return stock.create(JSON.parse(body.toString()) as Record<string, unknown>)
      case 'ListCodeInterpreters':
        return stock.list(query)
      case 'DeleteCodeInterpreter':
        return stock.delete(id)
      default:
        return stock.get(id)
    }
  }

  function take(operation: ControlOperation): ControlFault | null {
    const fault = faults.find((one) => one.operation === operation)
    if (fault === undefined) return null
    fault.times = (fault.times ?? 1) - 1
    if (fault.times <= 0) faults = faults.filter((one) => one !== fault)
    return fault
  }

  return {
    origin: data.origin,
    ...WHERE,
    secrets: EXAMPLE_SECRETS,
    data,
    stock,
    roles,
    knobs,
    calls,
    fault: (...list) => void (faults = list.map((one) => ({ ...one }))),
    [Symbol.asyncDispose]: () => data[Symbol.asyncDispose](),
  }
}

interface Call {
  operation: ControlOperation
  id: string
  query: URLSearchParams
  form: URLSearchParams
}

function operationOf(request: IncomingMessage, body: Buffer): Call | null {
  const url = new URL(request.url ?? '/', 'http://double')
  const [, id = ''] = /^\/code-interpreters\/([^/]+)$/.exec(url.pathname) ?? []
  const form = new URLSearchParams(request.method === 'POST' && url.pathname === '/' ? body.toString() : '')
  const call = (operation: string): Call => ({
    operation: operation as ControlOperation,
    id: decodeURIComponent(id),
    query: url.searchParams,
    form,
  })
  const action = form.get('Action') ?? ''
  if (IAM_ACTIONS.includes(action)) return call(action)
  const isCollection = /^\/code-interpreters\/?$/.test(url.pathname)
  if (isCollection && request.method === 'PUT') return call('CreateCodeInterpreter')
  if (isCollection && request.method === 'POST') return call('ListCodeInterpreters')
  if (id !== '' && request.method === 'GET') return call('GetCodeInterpreter')
  if (id !== '' && request.method === 'DELETE') return call('DeleteCodeInterpreter')
  return null
}

const statusOf = (operation: ControlOperation): number =>
  operation === 'CreateCodeInterpreter' || operation === 'DeleteCodeInterpreter' ? 202 : 200

const refused = (isIam: boolean, code: string, message: string): Error =>
  isIam
    ? new IamFailure(code, message)
    : new Failure(code === 'AccessDenied' ? 'AccessDeniedException' : code, message)
