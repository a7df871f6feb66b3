/**
 * The double's control API: create, list, connect, detail, timeout, kill (each with its `/v2` twin if it has
 * one). Errors are `{code, message}`. A sandbox ends by itself when its time is over.
 */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { happens, NO_FAULTS, STRANGE_ENTRIES, type Faults } from './faults.ts'
import { fail, page, readJson, reply, replyPublished } from './json-http.ts'
import { BadQuery, pageOf } from './list-query.ts'
import { E2B } from './published.ts'
import { newSandboxId, startMachine, type Machine } from './machine.ts'
import { unkept, unspoken } from './unspoken.ts'

/** The service's default lifetime: 300 s in /v2, 15 s in v1. */
const DEFAULT_SECONDS = { v1: 15, v2: 300 }
/** The version of envd that matches the double's behaviour. */
const ENVD_VERSION = '0.5.7'

export interface Box {
  id: string
  token: string
  /** Required for every port but envd's; null if anybody may reach the ports. */
  trafficToken: string | null
  template: string
  metadata: Record<string, string>
  /** The requested network access. */
  reach: { allowInternetAccess?: boolean; network?: object }
  startedAt: number
  endAt: number
  machine: Machine
  expiry: NodeJS.Timeout
}

export class Control {
  readonly boxes = new Map<string, Box>()
  readonly apiKey: string
  faults: Faults = { ...NO_FAULTS }
  #created = 0

  constructor(apiKey: string) {
    this.apiKey = apiKey
  }

  /** Number of sandboxes ever created. */
  get created(): number {
    return this.#created
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://double')
    const body = await readJson(request)
    if (this.faults.latency_ms > 0)
      await new Promise((resolve) => setTimeout(resolve, this.faults.latency_ms))
    const key = request.headers['x-api-key']
    if (key !== this.apiKey)
      return fail(response, 401, this.faults.echo_key ? `Invalid API key ${String(key)}` : 'Invalid API key')
    const isV2 = url.pathname.startsWith('/v2/')
    const named = /^(?:\/v2)?\/sandboxes(?:\/([a-z0-9]+)(?:\/([a-z]+))?)?$/.exec(url.pathname)
    const [, id, action] = named ?? []
    const why = unspoken(url.pathname, action)
    if (why !== null && (id === undefined || action === undefined || this.boxes.has(id)))
      return fail(response, 500, why)
    if (named === null) return fail(response, 404, 'no such route')
    const wrong = E2B.faultOfRequest(request.method ?? '', url.pathname, body)
    if (wrong !== null) return fail(response, 400, wrong)
    const route = `${request.method} ${id === undefined ? '' : ':id'}${action === undefined ? '' : `/${action}`}`
    if (id === undefined) {
      if (route === 'POST ') return await this.#create(response, body, isV2)
      if (route === 'GET ') return this.#list(response, url.searchParams)
      return fail(response, 404, 'no such route')
    }
    const box = this.boxes.get(id)
    if (box === undefined || (route === 'DELETE :id' && happens(this.faults, 'unknown_kills')))
      return fail(response, 404, `sandbox "${id}" doesn't exist or you don't have access to it`)
    if (route === 'GET :id') return replyPublished(response, 200, detail(box))
    if (route === 'DELETE :id' && happens(this.faults, 'throttle_kills')) return this.throttle(response)
    if (route === 'DELETE :id' && happens(this.faults, 'hold_kills')) return
    if (route === 'DELETE :id' && happens(this.faults, 'page_kills')) return page(response)
    if (route === 'DELETE :id') {
      await this.end(box)
      return replyPublished(response, 204)
    }
    const seconds = secondsIn(body)
    if (route === 'POST :id/timeout' && happens(this.faults, 'conflict_timeouts'))
      return fail(response, 409, 'sandbox is being killed')
    if (route === 'POST :id/connect' && happens(this.faults, 'throttle_connects'))
      return this.throttle(response)
    if (route === 'POST :id/timeout') {
      this.#live(box, seconds ?? 0)
      return replyPublished(response, 204)
    }
    if (route === 'POST :id/connect') {
      // Connect only ever extends the lifetime.
      if (seconds !== null && Date.now() + seconds * 1000 > box.endAt) this.#live(box, seconds)
      return replyPublished(response, 200, created(box))
    }
    return fail(response, 404, 'no such route')
  }

  async #create(response: ServerResponse, body: Record<string, unknown>, isV2: boolean): Promise<void> {
    const missing = unkept(body)
    if (missing !== null) return fail(response, 400, missing)
    if (happens(this.faults, 'throttle_creates')) return this.throttle(response)
    if (happens(this.faults, 'lose_creates')) response.destroy()
    const id = newSandboxId()
    const isSecure = isV2 || body['secure'] === true
    const token = isSecure ? randomBytes(20).toString('hex') : ''
    const { network, allow_internet_access: allowInternetAccess } = body as {
      network?: { allowPublicTraffic?: unknown }
      allow_internet_access?: boolean
    }
    const template = String(body['templateID'])
    const machine = await startMachine(template, token, textsIn(body['envVars']), {
      E2B_SANDBOX: 'true',
      E2B_SANDBOX_ID: id,
      E2B_TEMPLATE_ID: template,
    })
    const box: Box = {
      id,
      token,
      trafficToken: network?.allowPublicTraffic === false ? randomBytes(20).toString('hex') : null,
      template,
      metadata: textsIn(body['metadata']),
      reach: {
        ...(allowInternetAccess === undefined ? {} : { allowInternetAccess }),
        ...(network === undefined ? {} : { network }),
      },
      startedAt: Date.now(),
      endAt: 0,
      machine,
      expiry: setTimeout(() => {}, 0),
    }
    this.boxes.set(id, box)
    this.#created += 1
    this.#live(box, secondsIn(body) ?? (isV2 ? DEFAULT_SECONDS.v2 : DEFAULT_SECONDS.v1))
    if (response.destroyed || happens(this.faults, 'hold_creates')) return
    if (happens(this.faults, 'break_creates')) return fail(response, 502, 'Bad gateway')
    if (happens(this.faults, 'drop_creates')) {
      response.destroy()
      return
    }
    replyPublished(response, 201, created(box))
  }

  /** Answers 429, with or without a Retry-After. */
  throttle(response: ServerResponse): void {
    if (this.faults.retry_after !== null) response.setHeader('Retry-After', String(this.faults.retry_after))
    fail(response, 429, 'Rate limit exceeded, please try again later')
  }

  #list(response: ServerResponse, query: URLSearchParams): void {
    if (this.faults.ignore_filters) query.delete('metadata')
    try {
      const { page: boxes, next, total } = pageOf([...this.boxes.values()], query)
      response.setHeader('x-total-running', String(total))
      if (next !== null) response.setHeader('x-next-token', next)
      const found = boxes.map(shown)
      if (this.faults.strange_entries) reply(response, 200, [...STRANGE_ENTRIES, ...found])
      else replyPublished(response, 200, found)
    } catch (error) {
      if (!(error instanceof BadQuery)) throw error
      fail(response, 400, error.message)
    }
  }

  #live(box: Box, seconds: number): void {
    clearTimeout(box.expiry)
    box.endAt = Date.now() + seconds * 1000
    // 2^31 - 1 ms is the longest timer that Node.js has, and longer than any sandbox lives here.
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
  ...(box.trafficToken === null ? {} : { trafficAccessToken: box.trafficToken }),
})

const shown = (box: Box): object => ({
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

const detail = (box: Box): object => ({
  ...shown(box),
  ...box.reach,
  lifecycle: { autoResume: false, onTimeout: 'kill' },
})

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
