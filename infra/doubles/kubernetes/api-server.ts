/**
 * The part of a Kubernetes API server that clients of Agent Sandbox meet: create, get, list, watch, merge patch, scale, delete;
 * errors as `Status` objects.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { discovery, groupOf, isServed, VERSION } from './discovery.ts'
import { PLURALS, type KubeObject, type ObjectStore, type StoreEvent } from './object-store.ts'

const BODY_MAX = 1024 * 1024

export interface ApiFaults {
  /** So many watches are answered with 410 Gone as their first event. */
  gone_watches: number
  /** Drops so many answers to a create, after the object was made. */
  drop_creates: number
  /** Answers so many creates with 429. */
  throttle_creates: number
}

interface Asked {
  plural: string
  /** Undefined: of all. */
  namespace: string | undefined
  name: string | undefined
  subresource: string | undefined
  query: URLSearchParams
}

export class ApiServer {
  readonly store: ObjectStore
  readonly #token: string | null
  faults: ApiFaults = { gone_watches: 0, drop_creates: 0, throttle_creates: 0 }

  constructor(store: ObjectStore, token: string | null) {
    this.store = store
    this.#token = token
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://double')
    if (this.#token !== null && request.headers.authorization !== `Bearer ${this.#token}`)
      return status(response, 401, 'Unauthorized', 'Unauthorized')
    const found = discovery(url.pathname)
    if (found !== null) return void response.writeHead(200, { 'Content-Type': found.type }).end(found.body)
    const asked = parsePath(url)
    if (asked === null)
      return status(response, 404, 'NotFound', 'the server could not find the requested resource')
    const body = await readBody(request)
    if (body === null) return status(response, 400, 'BadRequest', 'the body is not JSON')
    const { plural, namespace, name } = asked
    if (namespace === undefined || name === undefined) {
      if (request.method === 'POST' && namespace !== undefined)
        return this.#create(response, plural, namespace, body)
      if (request.method === 'GET' && asked.query.get('watch') !== null)
        return this.#watch(request, response, asked)
      if (request.method === 'GET') return this.#list(response, asked)
      return status(response, 405, 'MethodNotAllowed', `${request.method} is not served here`)
    }
    const object = this.store.get(plural, namespace, name)
    if (object === undefined) return status(response, 404, 'NotFound', `${plural} "${name}" not found`)
    if (request.method === 'GET') return json(response, 200, object)
    if (request.method === 'PATCH') return this.#patch(request, response, asked, object, body)
    if (request.method === 'DELETE') return this.#delete(response, asked, object)
    return status(response, 405, 'MethodNotAllowed', `${request.method} is not served here`)
  }

  #create(response: ServerResponse, plural: string, namespace: string, body: Record<string, unknown>): void {
    if (this.faults.throttle_creates > 0) {
      this.faults.throttle_creates -= 1
      return status(response, 429, 'TooManyRequests', 'too many requests, please try again later')
    }
    const given = body as unknown as KubeObject
    if (PLURALS[given.kind] !== plural || typeof given.metadata?.name !== 'string')
      return status(response, 422, 'Invalid', 'kind and metadata.name are required')
    if (
      plural === 'sandboxclaims' &&
      typeof (given.spec?.['warmPoolRef'] as { name?: unknown } | undefined)?.name !== 'string'
    )
      return status(response, 422, 'Invalid', 'spec.warmPoolRef.name: Required value')
    const { apiVersion, kind, spec, metadata } = given
    const created = this.store.create({
      apiVersion,
      kind,
      spec: spec ?? {},
      metadata: { ...metadata, namespace },
    })
    if (created === undefined)
      return status(response, 409, 'AlreadyExists', `${plural} "${metadata.name}" already exists`)
    if (this.faults.drop_creates > 0) {
      this.faults.drop_creates -= 1
      response.destroy()
      return
    }
    json(response, 201, created)
  }

  #list(response: ServerResponse, { plural, namespace, query }: Asked): void {
    const all = this.store.list(plural, namespace).filter((object) => selects(query, object))
    const from = Number(query.get('continue') ?? 0)
    const limit = Number(query.get('limit') ?? 0) || all.length
    const page = all.slice(from, from + limit)
    const more = from + limit < all.length ? { continue: String(from + limit) } : {}
    const kind = Object.entries(PLURALS).find(([, name]) => name === plural)?.[0]
    json(response, 200, {
      apiVersion: `${groupOf(plural)}/${VERSION}`,
      kind: `${kind}List`,
      metadata: { resourceVersion: String(this.store.version), ...more },
      items: page,
    })
  }

  #watch(request: IncomingMessage, response: ServerResponse, { plural, namespace, query }: Asked): void {
    response.writeHead(200, { 'Content-Type': 'application/json' })
    response.flushHeaders()
    const send = (type: string, object: object): void =>
      void response.write(`${JSON.stringify({ type, object })}\n`)
    const from = Number(query.get('resourceVersion') ?? 0)
    const missed = from === 0 ? [] : this.store.since(from)
    const isGone = this.faults.gone_watches > 0
    if (isGone) this.faults.gone_watches -= 1
    if (missed === null || isGone) {
      send('ERROR', statusObject(410, 'Expired', 'too old resource version'))
      response.end()
      return
    }
    const onEvent = (event: StoreEvent): void => {
      if (event.plural !== plural) return
      if (namespace !== undefined && event.object.metadata.namespace !== namespace) return
      if (selects(query, event.object)) send(event.type, event.object)
    }
    if (from === 0)
      for (const object of this.store.list(plural, namespace))
        if (selects(query, object)) send('ADDED', object)
    for (const event of missed) onEvent(event)
    const unlisten = this.store.onEvent(onEvent)
    const seconds = Number(query.get('timeoutSeconds') ?? 300)
    const timer = setTimeout(() => response.end(), seconds * 1000)
    timer.unref()
    request.once('close', () => {
      clearTimeout(timer)
      unlisten()
    })
  }

  #patch(
    request: IncomingMessage,
    response: ServerResponse,
    { plural, subresource }: Asked,
    object: KubeObject,
    body: Record<string, unknown>,
  ): void {
    const kind = request.headers['content-type'] ?? ''
    if (!kind.startsWith('application/merge-patch+json'))
      return status(
        response,
        415,
        'UnsupportedMediaType',
        `the body of the request was in an unknown format: ${kind}`,
      )
    const merged = merge(object, body) as KubeObject
    const isStatus = subresource === 'status'
    const changed = this.store.update(object, {
      ...(isStatus ? { status: merged.status ?? {} } : { spec: merged.spec }),
      metadata: { ...merged.metadata, resourceVersion: object.metadata.resourceVersion },
    })
    if (subresource !== 'scale') return json(response, 200, changed)
    const replicas = Number(changed.spec['replicas'] ?? 1)
    json(response, 200, {
      apiVersion: 'autoscaling/v1',
      kind: 'Scale',
      metadata: changed.metadata,
      spec: { replicas },
      status: { replicas, selector: plural },
    })
  }

  /** A claim stays until its pod is gone; all else goes at once. */
  #delete(response: ServerResponse, { plural }: Asked, object: KubeObject): void {
    if (plural !== 'sandboxclaims') {
      this.store.remove(object)
      return json(response, 200, { apiVersion: 'v1', kind: 'Status', status: 'Success' })
    }
    if (object.metadata.deletionTimestamp !== undefined) return json(response, 200, object)
    json(
      response,
      200,
      this.store.update(object, { metadata: { deletionTimestamp: new Date().toISOString() } }),
    )
  }
}

function parsePath({ pathname, searchParams }: URL): Asked | null {
  const match =
    /^\/apis\/([a-z0-9.-]+)\/(v[a-z0-9]+)(?:\/namespaces\/([^/]+))?\/([a-z]+)(?:\/([^/]+)(?:\/([a-z]+))?)?$/.exec(
      pathname,
    )
  const [, group = '', version = '', namespace, plural = '', name, subresource] = match ?? []
  return isServed(group, version, plural)
    ? { plural, namespace, name, subresource, query: searchParams }
    : null
}

function selects(query: URLSearchParams, { metadata }: KubeObject): boolean {
  const labels = (query.get('labelSelector') ?? '').split(',').filter((term) => term !== '')
  const fields = (query.get('fieldSelector') ?? '').split(',').filter((term) => term !== '')
  return (
    labels.every((term) => {
      const [key = '', value] = term.split(/==?/)
      const has = metadata.labels?.[key]
      return value === undefined ? has !== undefined : has === value
    }) && fields.every((term) => term === `metadata.name=${metadata.name}`)
  )
}

/** RFC 7386. */
function merge(target: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch
  const base = typeof target === 'object' && target !== null && !Array.isArray(target) ? target : {}
  const merged: Record<string, unknown> = { ...base }
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key]
    else merged[key] = merge(merged[key], value)
  }
  return merged
}

async function readBody(request: IncomingMessage): Promise<Record<string, unknown> | null> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length
    if (size > BODY_MAX) return null
    parts.push(part)
  }
  try {
    return JSON.parse(Buffer.concat(parts).toString('utf8') || '{}') as Record<string, unknown>
  } catch {
    return null
  }
}

function json(response: ServerResponse, code: number, body: object): void {
  response.writeHead(code, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}

const statusObject = (code: number, reason: string, message: string): object => ({
  kind: 'Status',
  apiVersion: 'v1',
  metadata: {},
  status: 'Failure',
  reason,
  message,
  code,
})

const status = (response: ServerResponse, code: number, reason: string, message: string): void =>
  json(response, code, statusObject(code, reason, message))
