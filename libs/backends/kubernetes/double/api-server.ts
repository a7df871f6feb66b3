/** The parts of a Kubernetes API server that clients of Agent Sandbox use. Errors are Status objects. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { noApiFaults, type ApiFaults } from './api-faults.ts'
import { gone, json, refuse, Refusal, withNulls } from './answers.ts'
import { apiVersionOf, discovery, hasSubresource, isServed, KINDS, resourceOf } from './discovery.ts'
import { BadSelector } from './label-selector.ts'
import type { KubeObject, ObjectStore } from './object-store.ts'
import { selectorOf } from './selectors.ts'
import { StoredKinds, storedPath } from './stored-kinds.ts'
import { tableOf, wantsTable } from './tables.ts'
import { WatchStreams } from './watch-stream.ts'
import { create, patch, remove, replace, scaleOf, type Target } from './writes.ts'

const BODY_MAX = 1024 * 1024
/** A page token older than this many versions has expired, as after etcd's compaction. */
const PAGE_AGE_MAX = 1000

interface Asked extends Omit<Target, 'namespace'> {
  /** Undefined for all namespaces. */
  namespace: string | undefined
  name: string | undefined
}

export class ApiServer {
  readonly store: ObjectStore
  readonly watches: WatchStreams
  readonly #stored = new StoredKinds()
  readonly #token: string | null
  readonly #late: (() => void)[] = []
  faults = noApiFaults()

  constructor(store: ObjectStore, token: string | null) {
    this.store = store
    this.watches = new WatchStreams(store)
    this.#token = token
  }

  /** Carries out late creates. */
  carryOut(): void {
    for (const late of this.#late.splice(0)) late()
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await this.#answer(request, response)
    } catch (error) {
      if (error instanceof BadSelector) refuse(response, new Refusal(400, 'BadRequest', error.message))
      else if (error instanceof Refusal) refuse(response, error)
      else throw error
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://double')
    const isKnown = this.#token === null || request.headers.authorization === `Bearer ${this.#token}`
    if (
      !isKnown ||
      (request.method === 'POST' && this.#strikes('unauthorized_creates')) ||
      (request.method === 'PATCH' && this.#strikes('unauthorized_patches'))
    )
      throw new Refusal(401, 'Unauthorized', 'Unauthorized')
    const found = discovery(url.pathname)
    if (found !== null) return void response.writeHead(200, { 'Content-Type': found.type }).end(found.body)
    const stored = storedPath(url.pathname)
    if (stored !== null) return this.#stored.answer(request, response, stored, await bodyOf(request))
    const asked = parsePath(url)
    if (asked === null) throw new Refusal(404, 'NotFound', 'the server could not find the requested resource')
    const body = await bodyOf(request)
    const { plural, namespace, name, query } = asked
    if (namespace !== undefined && name !== undefined)
      return this.#object(request, response, { ...asked, namespace }, name, body)
    if (request.method === 'POST' && plural === 'pods')
      throw new Refusal(403, 'Forbidden', 'pods is forbidden: in this double the controller alone makes pods')
    if (request.method === 'POST' && namespace !== undefined)
      return this.#create(response, { ...asked, namespace }, body)
    if (request.method !== 'GET') throw notAllowed(request)
    if (['true', '1'].includes(query.get('watch') ?? ''))
      this.watches.serve(request, response, plural, namespace, query)
    else this.#list(request, response, asked)
  }

  #object(
    request: IncomingMessage,
    response: ServerResponse,
    target: Target,
    name: string,
    body: Record<string, unknown>,
  ): void {
    const { plural, namespace, subresource } = target
    const object = this.store.get(plural, namespace, name)
    if (object === undefined) throw new Refusal(404, 'NotFound', `${resourceOf(plural)} "${name}" not found`)
    if (request.method === 'GET')
      return json(
        response,
        200,
        subresource === 'scale' ? scaleOf(object) : this.#written(shownTo(request, plural, object)),
      )
    if (request.method === 'PUT' && plural !== 'pods')
      return json(response, 200, replace(this.store, response, target, object, body))
    if (request.method === 'PATCH')
      return json(response, 200, this.#written(patch(this.store, request, response, target, object, body)))
    if (request.method !== 'DELETE' || subresource !== undefined) throw notAllowed(request)
    if (this.#strikes('busy_deletes'))
      throw new Refusal(503, 'ServiceUnavailable', 'the server is currently unable to handle the request')
    const left = remove(this.store, target, object, body)
    if (this.#strikes('drop_deletes')) response.destroy()
    else json(response, 200, left)
  }

  #create(response: ServerResponse, target: Target, body: Record<string, unknown>): void {
    if (this.#strikes('throttle_creates'))
      throw new Refusal(429, 'TooManyRequests', 'too many requests, please try again later', {
        retryAfter: 1,
      })
    if (this.#strikes('late_creates')) {
      this.#late.push(() => void create(this.store, response, target, body))
      response.destroy()
      return
    }
    const created = create(this.store, response, target, body)
    if (this.#strikes('drop_creates')) response.destroy()
    else json(response, 201, this.#written(created))
  }

  #list(request: IncomingMessage, response: ServerResponse, { plural, namespace, query }: Asked): void {
    const selects = selectorOf(plural, query)
    const all = this.store.list(plural, namespace).filter(selects)
    const { version, from } = continued(query.get('continue'), this.store.version)
    if (this.store.version - version > PAGE_AGE_MAX || (from > 0 && this.#strikes('gone_pages'))) throw gone()
    const limit = Number(query.get('limit') ?? 0) || all.length
    const page = all.slice(from, from + limit)
    const next = from + limit < all.length ? { continue: `${version}/${from + limit}` } : {}
    const metadata = { resourceVersion: String(version), ...next }
    if (wantsTable(request.headers.accept)) return json(response, 200, tableOf(plural, page, metadata))
    json(response, 200, {
      apiVersion: apiVersionOf(plural),
      kind: `${KINDS[plural]}List`,
      metadata: this.faults.null_answers > 0 ? { continue: null, ...metadata } : metadata,
      items: page.map((object) => this.#written(object)),
    })
  }

  #written(object: object): object {
    return this.#strikes('null_answers') ? withNulls(object) : object
  }

  /** Uses up one count and returns true if the fault is set. */
  #strikes(fault: keyof ApiFaults): boolean {
    if (this.faults[fault] === 0) return false
    this.faults[fault] -= 1
    return true
  }
}

function parsePath({ pathname, searchParams }: URL): Asked | null {
  const match =
    /^\/(?:api|apis\/([a-z0-9.-]+))\/(v[a-z0-9]+)(?:\/namespaces\/([^/]+))?\/([a-z]+)(?:\/([^/]+)(?:\/([a-z]+))?)?$/.exec(
      pathname,
    )
  const [, group = '', version = '', namespace, plural = '', name, subresource] = match ?? []
  if (!isServed(group, version, plural)) return null
  if (subresource !== undefined && !hasSubresource(plural, subresource)) return null
  return { plural, namespace, name, subresource, query: searchParams }
}

/** Where a list continues, and the version of its first page. */
function continued(token: string | null, now: number): { version: number; from: number } {
  const [, version, from] = /^(\d+)\/(\d+)$/.exec(token ?? '') ?? []
  return { version: Number(version ?? now), from: Number(from ?? 0) }
}

function shownTo(request: IncomingMessage, plural: string, object: KubeObject): object {
  const { resourceVersion } = object.metadata
  return wantsTable(request.headers.accept) ? tableOf(plural, [object], { resourceVersion }) : object
}

const notAllowed = ({ method }: IncomingMessage): Refusal =>
  new Refusal(405, 'MethodNotAllowed', `${method} is not served here`)

/** The body as JSON: an object, except for a JSON patch. Throws Refusal. */
async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length
    if (size > BODY_MAX)
      throw new Refusal(413, 'RequestEntityTooLarge', `the body is above ${BODY_MAX} bytes`)
    parts.push(part)
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8') || '{}') as Record<string, unknown>
  } catch {
    throw new Refusal(400, 'BadRequest', 'the body is not JSON')
  }
}
