/**
 * The control API of the double: create, list, connect, detail, timeout, kill (each with its `/v2` twin where there is
 * one), errors as `{code, message}`. Sandboxes end by themselves when their time is over.
 */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { newSandboxId, startMachine, type Machine } from './machine.ts'

const BODY_MAX = 1024 * 1024
/** Of the real service: /v2 gives 300 s when nothing is said, v1 15 s. */
const DEFAULT_SECONDS = { v1: 15, v2: 300 }
/** Where all of what the double says of envd is true. */
const ENVD_VERSION = '0.5.7'

export interface Box {
  id: string
  token: string
  template: string
  metadata: Record<string, string>
  startedAt: number
  endAt: number
  machine: Machine
  expiry: NodeJS.Timeout
}

/** What the service does wrong on purpose; every field is used up as it happens. */
export interface Faults {
  /** Answers so many creates with 429. */
  throttle_creates: number
  /** Answers so many connects with 429. */
  throttle_connects: number
  /** Seconds in `Retry-After`; null for none. */
  retry_after: number | null
  /** Drops the connection of so many creates after the sandbox was made. */
  drop_creates: number
  /** Never answers so many creates, though their sandboxes are made. */
  hold_creates: number
  /** Answers so many changes of a sandbox's time with 409, as for one that is going. */
  conflict_timeouts: number
  /** Cuts the next stream of a process or of the interpreter after so many bytes; null for not at all. */
  cut_stream_after: number | null
  /** Streams come in pieces of so many bytes until this is 0 again. */
  piece_bytes: number
  /** Milliseconds before every answer of the control API. */
  latency_ms: number
}
export const NO_FAULTS: Faults = {
  throttle_creates: 0,
  throttle_connects: 0,
  retry_after: null,
  drop_creates: 0,
  hold_creates: 0,
  conflict_timeouts: 0,
  cut_stream_after: null,
  piece_bytes: 0,
  latency_ms: 0,
}

export class Control {
  readonly boxes = new Map<string, Box>()
  readonly apiKey: string
  faults: Faults = { ...NO_FAULTS }
  #created = 0

  constructor(apiKey: string) {
    this.apiKey = apiKey
  }

  /** How many sandboxes were ever made. */
  get created(): number {
    return this.#created
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://double')
    const body = await readJson(request)
    if (this.faults.latency_ms > 0)
      await new Promise((resolve) => setTimeout(resolve, this.faults.latency_ms))
    if (request.headers['x-api-key'] !== this.apiKey) return fail(response, 401, 'Invalid API key')
    const isV2 = url.pathname.startsWith('/v2/')
    const named = /^(?:\/v2)?\/sandboxes(?:\/([a-z0-9]+)(?:\/([a-z]+))?)?$/.exec(url.pathname)
    const [, id, action] = named ?? []
    if (named === null) return fail(response, 404, 'no such route')
    const route = `${request.method} ${id === undefined ? '' : ':id'}${action === undefined ? '' : `/${action}`}`
    if (id === undefined) {
      if (route === 'POST ') return await this.#create(response, body, isV2)
      if (route === 'GET ') return this.#list(response, url.searchParams)
      return fail(response, 404, 'no such route')
    }
    const box = this.boxes.get(id)
    if (box === undefined)
      return fail(response, 404, `sandbox "${id}" doesn't exist or you don't have access to it`)
    if (route === 'GET :id') return reply(response, 200, detail(box))
    if (route === 'DELETE :id') {
      await this.end(box)
      return reply(response, 204)
    }
    const seconds = secondsIn(body)
    if (route === 'POST :id/timeout' && this.#happens('conflict_timeouts'))
      return fail(response, 409, 'sandbox is being killed')
    if (route === 'POST :id/connect' && this.#happens('throttle_connects')) return this.#throttle(response)
    if (route === 'POST :id/timeout') {
      this.#live(box, seconds ?? 0)
      return reply(response, 204)
    }
    if (route === 'POST :id/connect') {
      // Only ever longer.
      if (seconds !== null && Date.now() + seconds * 1000 > box.endAt) this.#live(box, seconds)
      return reply(response, 200, created(box))
    }
    return fail(response, 404, 'no such route')
  }

  async #create(response: ServerResponse, body: Record<string, unknown>, isV2: boolean): Promise<void> {
    if (this.#happens('throttle_creates')) return this.#throttle(response)
    if (typeof body['templateID'] !== 'string') return fail(response, 400, 'templateID is required')
    const id = newSandboxId()
    const isSecure = isV2 || body['secure'] === true
    const token = isSecure ? randomBytes(20).toString('hex') : ''
    const template = body['templateID']
    const machine = await startMachine(template, token, {
      ...textsIn(body['envVars']),
      E2B_SANDBOX: 'true',
      E2B_SANDBOX_ID: id,
      E2B_TEMPLATE_ID: template,
    })
    const box: Box = {
      id,
      token,
      template,
      metadata: textsIn(body['metadata']),
      startedAt: Date.now(),
      endAt: 0,
      machine,
      expiry: setTimeout(() => {}, 0),
    }
    this.boxes.set(id, box)
    this.#created += 1
    this.#live(box, secondsIn(body) ?? (isV2 ? DEFAULT_SECONDS.v2 : DEFAULT_SECONDS.v1))
    if (this.#happens('hold_creates')) return
    if (this.#happens('drop_creates')) {
      response.destroy()
      return
    }
    reply(response, 201, created(box))
  }

  #happens(
    fault: 'throttle_creates' | 'throttle_connects' | 'drop_creates' | 'hold_creates' | 'conflict_timeouts',
  ): boolean {
    if (this.faults[fault] <= 0) return false
    this.faults[fault] -= 1
    return true
  }

  #throttle(response: ServerResponse): void {
    if (this.faults.retry_after !== null) response.setHeader('Retry-After', String(this.faults.retry_after))
    fail(response, 429, 'Rate limit exceeded, please try again later')
  }

  #list(response: ServerResponse, query: URLSearchParams): void {
    const wanted = new URLSearchParams(query.get('metadata') ?? '')
    const matches = [...this.boxes.values()]
      .filter(({ metadata }) => [...wanted].every(([name, value]) => metadata[name] === value))
      .toSorted((a, b) => b.startedAt - a.startedAt)
    const from = Number(query.get('nextToken') ?? 0)
    const limit = Math.min(100, Number(query.get('limit') ?? 100))
    if (from + limit < matches.length) response.setHeader('x-next-token', String(from + limit))
    reply(response, 200, matches.slice(from, from + limit).map(detail))
  }

  #live(box: Box, seconds: number): void {
    clearTimeout(box.expiry)
    box.endAt = Date.now() + seconds * 1000
    // A longer timer than Node has is as good as none.
    box.expiry = setTimeout(() => void this.end(box), Math.min(seconds * 1000, 2 ** 31 - 1)).unref()
  }

  /** Kills a sandbox; its streams end with it. */
  async end(box: Box): Promise<void> {
    clearTimeout(box.expiry)
    this.boxes.delete(box.id)
    await box.machine.jail[Symbol.asyncDispose]()
  }

  async close(): Promise<void> {
    await Promise.all([...this.boxes.values()].map((box) => this.end(box)))
  }
}

const created = (box: Box): object => ({
  templateID: box.template,
  sandboxID: box.id,
  clientID: 'double',
  envdVersion: ENVD_VERSION,
  ...(box.token === '' ? {} : { envdAccessToken: box.token }),
})

const detail = (box: Box): object => ({
  templateID: box.template,
  sandboxID: box.id,
  clientID: 'double',
  envdVersion: ENVD_VERSION,
  startedAt: new Date(box.startedAt).toISOString(),
  endAt: new Date(box.endAt).toISOString(),
  state: 'running',
  cpuCount: 2,
  memoryMB: 512,
  diskSizeMB: 1024,
  metadata: box.metadata,
})

export function reply(response: ServerResponse, status: number, body?: object): void {
  const text = body === undefined ? '' : JSON.stringify(body)
  response.writeHead(status, text === '' ? {} : { 'Content-Type': 'application/json' }).end(text)
}

export const fail = (response: ServerResponse, code: number, message: string): void =>
  reply(response, code, { code, message })

export async function readJson(request: IncomingMessage): Promise<Record<string, unknown>> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length
    if (size > BODY_MAX) throw new Error('the body is too large')
    parts.push(part)
  }
  try {
    const parsed: unknown = JSON.parse(Buffer.concat(parts).toString('utf8') || '{}')
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

function secondsIn(body: Record<string, unknown>): number | null {
  const { timeout } = body
  return typeof timeout === 'number' && timeout >= 0 ? timeout : null
}

function textsIn(value: unknown): Record<string, string> {
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : []
  return Object.fromEntries(
    entries.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}
