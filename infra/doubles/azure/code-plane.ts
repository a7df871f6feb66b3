/** The data plane of code-interpreter and shell pools: three execute dialects of Python, the shell's, files and sessions. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { bytesOf, callJail, Dropped, jsonOf, Refusal, reply, replyHalf, replyPage } from './exchange.ts'
import { happens, type Faults } from './faults.ts'
import { interpret, type Session, type SessionPool } from './session-pool.ts'

/** The service cuts here when nobody says anything else (spec of the new dialect). */
const OUTPUT_DEFAULT = 4096
/** No execution takes longer; the service was seen to end them at 221.5 s. */
const LONGEST_SECONDS = 220
/** Pages of a list. */
const PAGE = 300

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
  done: Ran | null
}

export type Dialect = 'oldest' | 'old' | 'new'

/** Answers calls below the management endpoint of one pool. */
export class CodePlane {
  readonly pool: SessionPool
  readonly #faults: Faults
  /** Dialects of Python that it understands: executions in others are refused with SessionPropertiesMissing, their paths of files are not there. */
  dialects: Dialect[] = ['oldest', 'old', 'new']
  /** Executions that began, whatever became of their answers. */
  executions = 0
  readonly #operations = new Map<string, Operation>()

  constructor(pool: SessionPool, faults: Faults) {
    this.pool = pool
    this.#faults = faults
  }

  /** `path` begins behind the endpoint. The call is authorised, and `identifier` is well-formed or absent. */
  async handle(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    query: URLSearchParams,
    identifier: string,
  ): Promise<void> {
    const { method } = request
    if (path === '/.management/listSessions' || path === '/listSessions')
      return await this.#list(response, query)
    if (path === '/metadata') return reply(response, 200, { containerType: this.pool.kind })
    if (path === '/python/execute') return await this.#oldest(request, response)
    if (identifier === '')
      throw new Refusal(400, 'SessionRequestValidationFailed', 'The query has no identifier.')
    if (path === '/session' && method === 'DELETE') {
      if (!(await this.pool.end(identifier)))
        throw new Refusal(400, 'SessionWithIdentifierNotFound', 'There is no session of this identifier.')
      return reply(response, 204)
    }
    if ((path === '/session' && method === 'GET') || path === '/.management/getSession')
      return reply(response, 200, shown(await this.pool.find(identifier), this.pool, path === '/session'))
    const operation = /^\/executions\/([\w-]+)$/.exec(path)?.[1]
    if (operation !== undefined && method === 'GET') return this.#poll(response, operation)
    if (path === '/executions' && method === 'POST') return await this.#execute(request, response, identifier)
    if (path === '/code/execute' && method === 'POST') return await this.#old(request, response, identifier)
    if (path === '/files' || path.startsWith('/files/'))
      return await this.#files(request, response, path, query, identifier)
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
    return await interpret<Ran>(session, 'POST', '/execute', { ...wish, seconds: limit })
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

  async #oldest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#speaks('oldest')
    const { properties = {} } = (await jsonOf(request)) as { properties?: Record<string, unknown> }
    const ran = await this.#run(String(properties['identifier']), this.#codeOf(properties, 'pythonCode'), 60)
    reply(response, 200, { result: ran.result, stdout: ran.stdout, stderr: ran.stderr })
  }

  async #old(request: IncomingMessage, response: ServerResponse, identifier: string): Promise<void> {
    this.#speaks('old')
    const { properties } = (await jsonOf(request)) as { properties?: Record<string, unknown> }
    if (properties === undefined)
      throw new Refusal(400, 'SessionPropertiesMissing', 'The request lacks properties.')
    const ran = await this.#run(identifier, this.#codeOf(properties, 'code'), properties['timeoutInSeconds'])
    const cut = this.#cutOf(undefined, Number.POSITIVE_INFINITY)
    this.#answer(response, 200, {
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
    const session = await this.pool.of(identifier)
    const operation: Operation = { session, done: null }
    const id = randomUUID()
    const cut = this.#cutOf(body['outputStreamsMaxLength'], OUTPUT_DEFAULT)
    const running = this.#runIn(session, code, body['timeoutInSeconds']).then((ran) => {
      operation.done = { ...ran, stdout: cut(ran.stdout), stderr: cut(ran.stderr) }
    })
    if (body['executionType'] === 'Asynchronous') {
      this.#operations.set(id, operation)
      running.catch(() => this.#operations.delete(id))
      const location = `${request.url?.split('?')[0]}/${id}`
      return this.#answer(response, 202, status(id, operation), {
        'operation-id': id,
        'Operation-Location': location,
      })
    }
    await running
    this.#answer(response, 200, status(id, operation))
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
    this.#answer(response, 200, {
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
    reply(response, 200, status(id, operation))
  }

  async #list(response: ServerResponse, query: URLSearchParams): Promise<void> {
    const skip = Number(query.get('skip') ?? 0)
    const all = await this.pool.list()
    const value = all.slice(skip, skip + PAGE).map((session) => shown(session, this.pool, false))
    const more = all.length > skip + PAGE ? { nextLink: `?skip=${skip + PAGE}` } : {}
    reply(response, 200, { value, count: value.length, ...more })
  }

  async #files(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    query: URLSearchParams,
    identifier: string,
  ): Promise<void> {
    const { method } = request
    const isOld = path.startsWith('/files/upload') || path.startsWith('/files/content/')
    if (this.pool.kind !== 'Shell' && !this.dialects.includes(isOld ? 'old' : 'new'))
      throw new Refusal(404, 'SessionRequestNotSupported', 'There is no such path.')
    const session = await this.pool.of(identifier)
    const folder = query.get('path') ?? ''
    const inJail = (name: string): string =>
      `/file?path=${encodeURIComponent(folder)}&name=${encodeURIComponent(name)}`
    if (method === 'GET' && path === '/files') {
      const recursive = query.get('recursive') === 'true'
      const found = await interpret<Listed[]>(
        session,
        'GET',
        `/files?path=${encodeURIComponent(folder)}&recursive=${recursive}`,
      )
      return reply(response, 200, { value: found.map((entry) => fileOf(entry)) })
    }
    if (method === 'POST' && (path === '/files' || path === '/files/upload')) {
      const { name, bytes } = await uploaded(request)
      const put = await callJail(session.jail.socket, 'PUT', inJail(name), bytes)
      if (put.status !== 200) throw new Refusal(400, 'SessionRequestValidationFailed', put.body.toString())
      const entry = {
        name,
        isDirectory: false,
        size: bytes.length,
        modified: Date.now() / 1000,
        directory: folder,
      }
      if (path === '/files') return this.#answer(response, 200, fileOf(entry))
      const properties = { filename: name, size: bytes.length, lastModifiedTime: new Date().toISOString() }
      return this.#answer(response, 200, { value: [{ properties }] })
    }
    const name = decodeURIComponent(
      /^\/files\/content\/([^/]+)$/.exec(path)?.[1] ?? /^\/files\/([^/]+)(\/content)?$/.exec(path)?.[1] ?? '',
    )
    if (method === 'DELETE') {
      await interpret(session, 'DELETE', inJail(name))
      return reply(response, 204)
    }
    const got = await callJail(session.jail.socket, 'GET', inJail(name))
    if (got.status !== 200) throw new Refusal(404, 'FileNotFound', 'There is no such file.')
    if (happens(this.#faults, 'drop_after')) throw new Dropped()
    response.writeHead(200, {
      'Content-Type': 'application/octet-stream',
      'Content-Length': String(got.body.length),
    })
    response.end(got.body)
  }

  #answer(response: ServerResponse, code: number, body: unknown, headers: Record<string, string> = {}): void {
    const isMeant = (response.req.url ?? '').includes(this.#faults.drop_path)
    if (isMeant && happens(this.#faults, 'drop_after')) throw new Dropped()
    if (isMeant && happens(this.#faults, 'halve_after')) return replyHalf(response, code, body)
    if (isMeant && happens(this.#faults, 'page_after')) return replyPage(response, this.#faults.page_status)
    if (isMeant && happens(this.#faults, 'odd_after')) {
      response.writeHead(200, { 'Content-Type': 'application/json' })
      return void response.end(this.#faults.odd_body)
    }
    reply(response, code, body, headers)
  }
}

interface Listed {
  name: string
  isDirectory: boolean
  size: number
  modified: number
  directory: string
}

const fileOf = (entry: Listed): Record<string, unknown> => ({
  name: entry.name,
  type: entry.isDirectory ? 'directory' : 'file',
  contentType: entry.isDirectory ? null : 'application/octet-stream',
  sizeInBytes: entry.size,
  lastModifiedAt: new Date(entry.modified * 1000).toISOString(),
  ...(entry.directory === '' ? {} : { directory: entry.directory }),
})

const status = (id: string, { session, done }: Operation): Record<string, unknown> => ({
  id,
  identifier: session.identifier,
  executionType: 'Synchronous',
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

/** A session as a list or a look shows it; the two families name the end differently. */
export function shown(session: Session, pool: SessionPool, isOld: boolean): Record<string, unknown> {
  const ends = new Date(session.lastAccessedAt + pool.cooldownMs).toISOString()
  return {
    identifier: session.identifier,
    etag: session.etag,
    createdAt: new Date(session.createdAt).toISOString(),
    lastAccessedAt: new Date(session.lastAccessedAt).toISOString(),
    ...(isOld ? { expireAt: ends } : { expiresAt: ends }),
  }
}

/** The one file of a multipart body. */
async function uploaded(request: IncomingMessage): Promise<{ name: string; bytes: Buffer }> {
  const form = await new Response(new Uint8Array(await bytesOf(request)), {
    headers: { 'Content-Type': request.headers['content-type'] ?? '' },
  })
    .formData()
    .catch(() => {
      throw new Refusal(400, 'SessionRequestValidationFailed', 'The body is no form.')
    })
  for (const part of form.values())
    if (typeof part !== 'string') {
      if (!/^[\w. ()-]{1,255}$/.test(part.name) || /^\.+$/.test(part.name))
        throw new Refusal(400, 'SessionRequestValidationFailed', 'The name of the file is not allowed.')
      return { name: part.name, bytes: Buffer.from(await part.arrayBuffer()) }
    }
  throw new Refusal(400, 'SessionRequestValidationFailed', 'The form has no file.')
}
