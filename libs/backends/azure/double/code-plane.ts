/**
 * Data plane of code and shell pools: three dialects for executing Python, one for shell commands, and calls
 * for files and sessions.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { handleFiles } from './code-files.ts'
import { jsonOf, Refusal } from './exchange.ts'
import { happens, type Faults } from './faults.ts'
import { AZURE } from './published.ts'
import { interpret, type Session, type SessionPool } from './session-pool.ts'
import { listSessions, shown } from './shown-session.ts'
import { answer, answerWhole } from './spoil-answer.ts'

/** The service's default limit of output (spec of the new dialect). */
const OUTPUT_DEFAULT = 4096
/** Longest execution; the service was seen to end them at 221.5 s. */
const LONGEST_SECONDS = 220

interface Ran {
  status: 'Succeeded' | 'Failed'
  stdout: string
  stderr: string
  result: unknown
  exitCode?: number
  ms: number
}

interface Operation {
  session: Session
  isAsynchronous: boolean
  done: Ran | null
}

/** A short version of the metadata of a PythonLTS pool. */
const METADATA = {
  runtimes: [{ name: 'python', version: '3.12.7' }],
  preInstalledPackages: [],
  createdAt: '2026-01-01T00:00:00.000Z',
  lastUpdatedAt: '2026-01-01T00:00:00.000Z',
  jupyterKernel: {
    name: 'python3',
    version: '3.12.7',
    projectUrl: 'https://github.com/ipython/ipykernel',
    description: 'The kernel of the double',
  },
}

export type Dialect = 'oldest' | 'old' | 'new'

/** Answers calls below the management endpoint of one pool. */
export class CodePlane {
  readonly pool: SessionPool
  readonly #faults: Faults
  /** Dialects that it supports. Others get SessionPropertiesMissing, and their file paths do not exist. */
  dialects: Dialect[] = ['oldest', 'old', 'new']
  /** Executions begun, whatever became of their answers. */
  executions = 0
  readonly #operations = new Map<string, Operation>()

  constructor(pool: SessionPool, faults: Faults) {
    this.pool = pool
    this.#faults = faults
  }

  /**
   * `path` is relative to the endpoint. The call is authorised. `identifier` is well-formed, or '' if absent.
   */
  async handle(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    query: URLSearchParams,
    identifier: string,
  ): Promise<void> {
    const { method } = request
    if (path === '/listSessions' && method === 'GET')
      return await listSessions(this.pool, this.#faults, response, 'code')
    if (path === '/.management/listSessions' && method === 'POST')
      return await listSessions(this.pool, this.#faults, response, 'management')
    if (path === '/metadata' && method === 'GET') return answerWhole(response, 200, METADATA)
    if (path === '/python/execute') return await this.#oldest(request, response)
    if (identifier === '')
      throw new Refusal(400, 'SessionRequestValidationFailed', 'The query has no identifier.')
    if (path === '/session' && method === 'DELETE') {
      if (!(await this.pool.end(identifier)))
        throw new Refusal(400, 'SessionWithIdentifierNotFound', 'There is no session of this identifier.')
      return answerWhole(response, 204)
    }
    const of =
      path === '/session' && method === 'GET'
        ? 'code'
        : path === '/.management/getSession' && method === 'POST'
          ? 'management'
          : null
    if (of !== null) return answerWhole(response, 200, shown(await this.pool.find(identifier), this.pool, of))
    const operation = /^\/executions\/([\w-]+)$/.exec(path)?.[1]
    if (operation !== undefined && method === 'GET') return this.#poll(response, operation)
    if (path === '/executions' && method === 'POST') return await this.#execute(request, response, identifier)
    if (path === '/code/execute' && method === 'POST') return await this.#old(request, response, identifier)
    if (path === '/files' || path.startsWith('/files/')) {
      this.#speaksOfFiles(path)
      const session = await this.pool.of(identifier)
      return await handleFiles({ request, response, path, query }, session, this.#faults)
    }
    throw new Refusal(404, 'NotFound', 'There is no such path.')
  }

  async #run(identifier: string, wish: Record<string, unknown>, seconds: unknown): Promise<Ran> {
    const session = await this.pool.of(identifier)
    return await this.#runIn(session, wish, seconds)
  }

  async #runIn(session: Session, wish: Record<string, unknown>, seconds: unknown): Promise<Ran> {
    if (happens(this.#faults, 'fail_executions'))
      return { status: 'Failed', stdout: '', stderr: this.#faults.fail_stderr, result: null, ms: 0 }
    this.executions += 1
    const limit = Math.min(typeof seconds === 'number' && seconds > 0 ? seconds : 120, LONGEST_SECONDS)
    const execute = (): Promise<Ran> => interpret(session, 'POST', '/execute', { ...wish, seconds: limit })
    if (happens(this.#faults, 'twice')) await execute()
    return await execute()
  }

  #codeOf(fields: Record<string, unknown>, name: string): { code: string } {
    const text = fields[name]
    if (typeof text !== 'string')
      throw new Refusal(400, 'SessionPropertiesMissing', `The request lacks ${name}.`)
    const isBase64 = fields['codeInputType'] === 'InlineBase64'
    return { code: isBase64 ? Buffer.from(text, 'base64').toString() : text }
  }

  #speaks(dialect: Dialect): void {
    if (this.pool.kind === 'Shell' || !this.dialects.includes(dialect))
      throw new Refusal(400, 'SessionPropertiesMissing', 'Properties of the session request are missing.')
  }

  #speaksOfFiles(path: string): void {
    const isOld = path.startsWith('/files/upload') || path.startsWith('/files/content/')
    if (this.pool.kind !== 'Shell' && !this.dialects.includes(isOld ? 'old' : 'new'))
      throw new Refusal(404, 'SessionRequestNotSupported', 'There is no such path.')
  }

  async #oldest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#speaks('oldest')
    const { properties = {} } = (await jsonOf(request)) as { properties?: Record<string, unknown> }
    const ran = await this.#run(String(properties['identifier']), this.#codeOf(properties, 'pythonCode'), 60)
    answerWhole(response, 200, { result: ran.result, stdout: ran.stdout, stderr: ran.stderr })
  }

  async #old(request: IncomingMessage, response: ServerResponse, identifier: string): Promise<void> {
    this.#speaks('old')
    const { properties } = (await jsonOf(request)) as { properties?: Record<string, unknown> }
    if (properties === undefined)
      throw new Refusal(400, 'SessionPropertiesMissing', 'The request lacks properties.')
    const ran = await this.#run(identifier, this.#codeOf(properties, 'code'), properties['timeoutInSeconds'])
    const cut = this.#cutOf(undefined, Number.POSITIVE_INFINITY)
    answer(this.#faults, response, 200, {
      properties: {
        status: ran.status === 'Succeeded' ? 'Success' : 'Failure',
        stdout: cut(ran.stdout),
        stderr: cut(ran.stderr),
        result: ran.result,
        executionTimeInMilliseconds: ran.ms,
      },
    })
  }

  async #execute(request: IncomingMessage, response: ServerResponse, identifier: string): Promise<void> {
    const body = await jsonOf(request)
    if (this.pool.kind === 'Shell') return await this.#shell(response, identifier, body)
    this.#speaks('new')
    if ('properties' in body)
      throw new Refusal(400, 'SessionPropertiesMissing', 'Properties of the session request are missing.')
    const code = this.#codeOf(body, 'code')
    const wrong = AZURE.faultOfRequest('POST', '/executions', body)
    if (wrong !== null) throw new Refusal(400, 'SessionRequestValidationFailed', wrong)
    const session = await this.pool.of(identifier)
    const isAsynchronous = body['executionType'] === 'Asynchronous'
    const operation: Operation = { session, isAsynchronous, done: null }
    const id = randomUUID()
    const cut = this.#cutOf(body['outputStreamsMaxLength'], OUTPUT_DEFAULT)
    const running = this.#runIn(session, code, body['timeoutInSeconds']).then((ran) => {
      operation.done = { ...ran, stdout: cut(ran.stdout), stderr: cut(ran.stderr) }
    })
    if (isAsynchronous || happens(this.#faults, 'answer_early')) {
      this.#operations.set(id, operation)
      running.catch(() => this.#operations.delete(id))
      const location = `http://${request.headers.host}${request.url?.split('?')[0]}/${id}`
      return answer(this.#faults, response, 202, status(id, operation), {
        'operation-id': id,
        'Operation-Location': location,
      })
    }
    await running
    answer(this.#faults, response, 200, status(id, operation))
  }

  async #shell(response: ServerResponse, identifier: string, body: Record<string, unknown>): Promise<void> {
    const { shellCommand: shell, execCommandAndArgs: argv } = body
    if (typeof shell !== 'string' && !Array.isArray(argv))
      throw new Refusal(400, 'SessionPropertiesMissing', 'The request lacks shellCommand.')
    const ran = await this.#run(
      identifier,
      typeof shell === 'string' ? { shell } : { argv },
      body['timeoutInSeconds'] ?? 180,
    )
    const cut = this.#cutOf(body['outputStreamsMaxLength'], OUTPUT_DEFAULT)
    const said = ran.status === 'Failed' ? 'Failed' : String(ran.exitCode)
    answer(this.#faults, response, 200, {
      id: randomUUID(),
      identifier,
      executionType: 'Synchronous',
      status: said,
      result: { stdout: cut(ran.stdout), stderr: cut(ran.stderr) },
    })
  }

  #cutOf(asked: unknown, otherwise: number): (text: string) => string {
    const wanted = typeof asked === 'number' && asked > 0 ? asked : otherwise
    const most = happens(this.#faults, 'truncate_executions')
      ? Math.min(wanted, this.#faults.truncate_to)
      : wanted
    return (text) => text.slice(0, most)
  }

  #poll(response: ServerResponse, id: string): void {
    const operation = this.#operations.get(id)
    if (operation === undefined) throw new Refusal(404, 'ExecutionNotFound', 'There is no such execution.')
    answerWhole(response, 200, status(id, operation))
  }
}

const status = (id: string, { session, isAsynchronous, done }: Operation): Record<string, unknown> => ({
  id,
  identifier: session.identifier,
  executionType: isAsynchronous ? 'Asynchronous' : 'Synchronous',
  status: done?.status ?? 'Running',
  ...(done === null
    ? {}
    : {
        result: {
          stdout: done.stdout,
          stderr: done.stderr,
          executionResult: done.result,
          executionTimeInMilliseconds: done.ms,
        },
      }),
})
