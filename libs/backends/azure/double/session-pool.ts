/**
 * One pool of the double: sessions by identifier, each a jail. An unknown identifier silently gets a new
 * session. Every call resets the idle timer, but a look-up does not. The pool refuses sessions above its
 * maximum.
 */
import { randomUUID } from 'node:crypto'
import { SOCKET, NODE, startJail, type Jail } from '@cofferdam/backend-remote/double'
import { fileURLToPath } from 'node:url'
import { callJail, Refusal } from './exchange.ts'

export type PoolKind = 'PythonLTS' | 'NodeLTS' | 'Shell' | 'CustomContainer'

export interface PoolOptions {
  name: string
  kind: PoolKind
  /** Default 10. */
  maxSessions?: number
  /** Default 300 s, the service's minimum. */
  cooldownMs?: number
  /** The user inside its sessions: root (needs root on this host), or an ordinary user (default). */
  user?: 'root' | 'user'
  /** Keeps one session started for the next identifier, like `readySessionInstances`. Default: none. */
  keepsReady?: boolean
}

/** A running session. `etag` names its container. */
export interface Session {
  identifier: string
  etag: string
  createdAt: number
  lastAccessedAt: number
  jail: Jail
  idle: NodeJS.Timeout
}

const INTERPRETER = fileURLToPath(new URL('interpreter.py', import.meta.url))
const PYTHON = '/usr/bin/python3'

/** Sessions of one pool. */
export class SessionPool {
  readonly name: string
  readonly kind: PoolKind
  readonly maxSessions: number
  readonly cooldownMs: number
  readonly #agentFolder: string
  readonly #keepsReady: boolean
  readonly #isRoot: boolean
  #ready: Promise<Jail> | null = null
  readonly #sessions = new Map<string, Promise<Session>>()
  /** Number of sessions ever allocated. */
  allocated = 0
  /** Page size of the list. */
  page = 300

  constructor(options: PoolOptions, agentFolder: string) {
    this.name = options.name
    this.kind = options.kind
    this.maxSessions = options.maxSessions ?? 10
    this.cooldownMs = options.cooldownMs ?? 300_000
    this.#keepsReady = options.keepsReady ?? false
    this.#isRoot = options.user === 'root'
    this.#agentFolder = agentFolder
  }

  /** The session of an identifier, created if needed. */
  async of(identifier: string): Promise<Session> {
    let found = this.#sessions.get(identifier)
    if (found === undefined) {
      if (this.#sessions.size >= this.maxSessions)
        throw new Refusal(429, 'MaxSessionsReached', `The pool has ${this.maxSessions} sessions.`)
      this.allocated += 1
      found = this.#allocate(identifier)
      this.#sessions.set(identifier, found)
      found.catch(() => this.#sessions.delete(identifier))
    }
    const session = await found
    session.lastAccessedAt = Date.now()
    session.idle.refresh()
    return session
  }

  async find(identifier: string): Promise<Session> {
    const session = await this.#sessions.get(identifier)
    if (session === undefined)
      throw new Refusal(400, 'SessionWithIdentifierNotFound', 'There is no session of this identifier.')
    return session
  }

  async list(): Promise<Session[]> {
    return await Promise.all(this.#sessions.values())
  }

  /** Returns false if there was none. */
  async end(identifier: string): Promise<boolean> {
    const found = this.#sessions.get(identifier)
    if (found === undefined) return false
    this.#sessions.delete(identifier)
    const { jail, idle } = await found
    clearTimeout(idle)
    await jail[Symbol.asyncDispose]()
    return true
  }

  async close(): Promise<void> {
    await Promise.all([...this.#sessions.keys()].map((identifier) => this.end(identifier)))
    await (await this.#ready?.catch(() => null))?.[Symbol.asyncDispose]()
  }

  async #allocate(identifier: string): Promise<Session> {
    const jail = await this.#take()
    const idle = setTimeout(() => void this.end(identifier), this.cooldownMs)
    idle.unref()
    const session: Session = {
      identifier,
      etag: randomUUID(),
      createdAt: Date.now(),
      lastAccessedAt: Date.now(),
      jail,
      idle,
    }
    // A session ends with the first process of its container.
    void jail.ended.then(async () => {
      if ((await this.#sessions.get(identifier)?.catch(() => null)) !== session) return
      this.#sessions.delete(identifier)
      clearTimeout(idle)
    })
    return session
  }

  #take(): Promise<Jail> {
    const start = (): Promise<Jail> =>
      this.kind === 'CustomContainer' ? this.#container() : interpreter(this.#isRoot)
    const taken = this.#ready ?? start()
    if (this.#keepsReady) {
      this.#ready = start()
      // Whoever takes this jail gets the error.
      this.#ready.catch(() => undefined)
    }
    return taken
  }

  /** Our image as a customer would build it: the guest's files, and http_pod.py as first process. */
  #container(): Promise<Jail> {
    return startJail({
      hostname: 'session',
      uid: this.#isRoot ? 'root' : 65_534,
      isInit: true,
      command: [PYTHON, '-I', '-S', '/opt/agent/http_pod.py', SOCKET, '--node', NODE, '--own-disk'],
      shows: [[this.#agentFolder, '/opt/agent']],
      environment: {},
    })
  }
}

function interpreter(isRoot: boolean): Promise<Jail> {
  return startJail({
    hostname: 'session',
    uid: isRoot ? 'root' : 1000,
    isInit: false,
    command: [PYTHON, '-I', '/opt/interpreter.py', SOCKET],
    shows: [[INTERPRETER, '/opt/interpreter.py']],
    environment: {},
  })
}

/** Calls the interpreter of a session, with JSON. */
export async function interpret<T>(
  session: Session,
  method: string,
  path: string,
  body?: unknown,
): Promise<T> {
  const bytes = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
  const answer = await callJail(session.jail.socket, method, path, bytes)
  if (answer.status === 404) throw new Refusal(404, 'FileNotFound', 'There is no such file.')
  if (answer.status !== 200) throw new Refusal(400, 'SessionRequestValidationFailed', answer.body.toString())
  return JSON.parse(answer.body.toString()) as T
}
