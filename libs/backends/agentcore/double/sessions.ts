/** Sessions of the double: started once per client token, ended by Stop or time, one call at a time. */
import { createHash, randomBytes } from 'node:crypto'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { fileURLToPath } from 'node:url'
import { SOCKET, startJail, type Jail } from '@cofferdam/backend-remote/double'
import { Failure } from './failure.ts'
import { refuseUnkept } from './paging.ts'

const INSIDE = ['interpreter.py', 'tools.py', 'running.py', 'kernel.py']
/**
 * The service lists terminated sessions for a while. The double forgets the oldest of them once it has more
 * sessions than this, running ones included.
 */
const REMEMBERED_MAX = 1000
const ULID = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

export interface StartRequest {
  name?: unknown
  sessionTimeoutSeconds?: unknown
  clientToken?: unknown
}

export type Ended = 'stopped' | 'expired'

export interface Session {
  id: string
  interpreter: string
  name: string | undefined
  createdAt: Date
  lastUpdatedAt: Date
  timeoutSeconds: number
  jail: Jail
  /** How it ended; null while it runs. */
  ended: Ended | null
  /** Resolves when the session ends. */
  over: Promise<Ended>
  end(how: Ended): Promise<void>
  /** Runs `work` after the earlier calls of this session. */
  turn<T>(work: () => Promise<T>): Promise<T>
}

export class Sessions {
  readonly #all = new Map<string, Session>()
  readonly #tokens = new Map<string, { digest: string; session: Promise<Session> }>()
  #started = 0
  /** The service's quota per account: 1,000. */
  quota = 1000

  /** Number of sessions ever started. */
  get started(): number {
    return this.#started
  }

  running(): Session[] {
    return [...this.#all.values()].filter(({ ended }) => ended === null)
  }

  of(interpreter: string): Session[] {
    return [...this.#all.values()].filter((session) => session.interpreter === interpreter).toReversed()
  }

  /** Throws ResourceNotFoundException. */
  find(interpreter: string, id: string): Session {
    const session = this.#all.get(id)
    if (session === undefined || session.interpreter !== interpreter)
      throw new Failure('ResourceNotFoundException', `Code interpreter session ${id} not found`)
    return session
  }

  byId(id: string): Session | undefined {
    return this.#all.get(id)
  }

  async start(interpreter: string, asked: StartRequest): Promise<Session> {
    const { name, sessionTimeoutSeconds: timeout = 900, clientToken: token } = asked
    refuseUnkept({ ...asked })
    if (name !== undefined && (typeof name !== 'string' || name.length < 1 || name.length > 100))
      throw invalid('name')
    if (!Number.isInteger(timeout) || (timeout as number) < 1 || (timeout as number) > 28_800)
      throw invalid('sessionTimeoutSeconds')
    if (token !== undefined && !isToken(token)) throw invalid('clientToken')
    const made = async (): Promise<Session> => this.#make(interpreter, name, timeout as number)
    if (token === undefined) return await made()
    const key = `${interpreter} ${token}`
    const digest = createHash('sha256')
      .update(JSON.stringify([name, timeout]))
      .digest('hex')
    const known = this.#tokens.get(key)
    if (known === undefined) {
      const session = made()
      this.#tokens.set(key, { digest, session })
      session.catch(() => this.#tokens.delete(key))
      return await session
    }
    if (known.digest === digest) return await known.session
    throw new Failure(
      'ValidationException',
      'The client token was used with other parameters',
      'IdempotentParameterMismatchException',
    )
  }

  async #make(interpreter: string, name: string | undefined, timeoutSeconds: number): Promise<Session> {
    if (this.running().length >= this.quota)
      throw new Failure('ServiceQuotaExceededException', 'Maximum number of concurrent sessions exceeded')
    this.#started += 1
    const jail = await startJail({
      hostname: 'interpreter',
      uid: 1000,
      isInit: false,
      command: ['/usr/bin/python3', '-I', '/opt/interpreter.py', SOCKET],
      shows: INSIDE.map((file) => [fileURLToPath(new URL(file, import.meta.url)), `/opt/${file}`]),
      environment: {},
    })
    const session = sessionOf({ interpreter, name, timeoutSeconds, jail })
    this.#all.set(session.id, session)
    for (const [id, { ended }] of this.#all)
      if (this.#all.size > REMEMBERED_MAX && ended !== null) this.#all.delete(id)
    return session
  }

  async close(): Promise<void> {
    await Promise.all(this.running().map((session) => session.end('stopped')))
  }
}

function sessionOf(made: Pick<Session, 'interpreter' | 'name' | 'timeoutSeconds' | 'jail'>): Session {
  const over = Promise.withResolvers<Ended>()
  let last: Promise<unknown> = Promise.resolve()
  const session: Session = {
    ...made,
    id: Array.from(randomBytes(26), (byte) => ULID[byte % 32]).join(''),
    createdAt: new Date(),
    lastUpdatedAt: new Date(),
    ended: null,
    over: over.promise,
    async end(how) {
      clearTimeout(expiry)
      if (session.ended === null) {
        session.ended = how
        session.lastUpdatedAt = new Date()
        over.resolve(how)
      }
      await session.jail[Symbol.asyncDispose]()
    },
    async turn(work) {
      const mine = last.then(work)
      last = mine.catch(() => undefined)
      return await mine
    },
  }
  const expiry = setTimeout(() => void session.end('expired'), made.timeoutSeconds * 1000).unref()
  return session
}

const isToken = (token: unknown): token is string =>
  typeof token === 'string' &&
  token.length >= 33 &&
  token.length <= 256 &&
  /^[a-zA-Z0-9](-*[a-zA-Z0-9])*$/.test(token)

const invalid = (field: string): Failure =>
  new Failure('ValidationException', `The value of ${field} is not valid`, 'FieldValidationFailed', field)

/** Calls a tool in a session's jail and passes previews to `onText`. Rejects if the jail ends. */
export async function callTool(
  session: Session,
  call: { name: string; arguments: object },
  onText: ((text: string) => void) | null,
): Promise<Record<string, unknown>> {
  const body = JSON.stringify({ ...call, previews: onText !== null })
  const request = httpRequest({
    socketPath: session.jail.socket,
    method: 'POST',
    path: '/call',
    headers: { 'Content-Length': Buffer.byteLength(body) },
    agent: false,
  })
  const answered = Promise.withResolvers<IncomingMessage>()
  request.once('error', answered.reject).once('response', answered.resolve)
  request.end(body)
  const parts: Buffer[] = []
  for await (const chunk of (await answered.promise) as AsyncIterable<Buffer>) {
    parts.push(chunk)
    if (!chunk.includes('\n')) continue
    const lines = Buffer.concat(parts.splice(0)).toString().split('\n')
    parts.push(Buffer.from(lines.pop() ?? ''))
    for (const line of lines) {
      const said = JSON.parse(line) as { text?: string; result?: Record<string, unknown> }
      if (said.result !== undefined) return said.result
      if (said.text !== undefined) onText?.(said.text)
    }
  }
  throw new Error('the jail ended')
}
