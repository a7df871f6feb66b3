/**
 * Decides who calls, and for which tenant. An admin key (`Authorization: Bearer cfd_<40 hex>`) may do
 * everything, a tenant key only what concerns its tenant. A request that names another tenant gets 403. An
 * execution of another tenant gets 404, so that nobody learns which IDs exist. /mcp may also accept OAuth
 * access tokens (oauth/resource-server.ts), which count as keys of one tenant, and /v1 the cookie of the
 * dashboard (dashboard/sign-ins.ts), which counts as the key that signed in.
 */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import type { Author } from '@cofferdam/store'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { notSignedIn, type SignIns } from './dashboard/sign-ins.ts'
import { addressGroup } from './guess-brake.ts'
import type { Caller, KeyCache } from './key-cache.ts'
import { bearerOf, READ_ONLY, type ResourceServer } from './oauth/resource-server.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by `authenticate`. Null on open paths. */
    caller: Caller | null
    /** 32 hex digits: the trace this request belongs to. */
    traceId: string
  }
  interface FastifyContextConfig {
    /** Admin keys only. */
    admin?: boolean
  }
}

/** The credentials that a group of routes accepts. */
interface Accepted {
  keys: KeyCache
  /** The issuer of access tokens. Default: none are accepted. */
  oauth?: ResourceServer | undefined
  /** Sign-ins of browsers. Default: cookies are not looked at. */
  signIns?: SignIns
  /** The routes decide themselves what a read-only key may do. Default: it may only send GET and HEAD. */
  readOnlyByScope?: boolean
}

/**
 * Identifies the caller of every route of `app` before its body is read. After that, paths below
 * `/v1/tenants/:id` accept only admin keys and keys of that tenant.
 */
export function authenticate(app: FastifyInstance, accepted: Accepted): void {
  app.addHook('onRequest', async (request, reply) => {
    const { config } = request.routeOptions
    const caller = await whoCalls(request, reply, accepted)
    request.caller = caller
    const reads = request.method === 'GET' || request.method === 'HEAD'
    if (caller.readOnly && !reads && accepted.readOnlyByScope !== true)
      throw new CofferdamError('forbidden', READ_ONLY)
    if (config.admin === true && caller.scope !== 'admin') {
      throw new CofferdamError('forbidden', 'Only an admin key may do this.')
    }
  })
  app.addHook('preHandler', async (request) => {
    // Finds the tenant by its position in the path, because routes may give the parameter another name.
    const [, name] = /^\/v1\/tenants\/:(\w+)/.exec(request.routeOptions.url ?? '') ?? []
    if (name !== undefined) requireTenant(request, (request.params as Record<string, string>)[name] ?? '')
  })
}

/** Who calls: by token, by key, or by the cookie of the dashboard. A key that is sent wins over a cookie. */
async function whoCalls(
  request: FastifyRequest,
  reply: FastifyReply,
  { keys, oauth, signIns }: Accepted,
): Promise<Caller> {
  if (oauth !== undefined) return identifyByToken(request, reply, keys, oauth)
  const { authorization, cookie } = request.headers
  if (signIns === undefined || authorization !== undefined || cookie === undefined)
    return identify(request, keys)
  const signedIn = await signIns.find(request)
  if (signedIn === null) throw notSignedIn()
  return signedIn.caller
}

/** Returns the caller that the key names. Throws `unauthenticated`, `rate_limited` or `store_unavailable`. */
export async function identify(request: FastifyRequest, keys: KeyCache): Promise<Caller> {
  const header = request.headers.authorization
  if (header === undefined) throw new CofferdamError('unauthenticated')
  const key = /^bearer +(cfd_[0-9a-f]{40})$/i.exec(header)?.[1]
  if (key === undefined) {
    throw new CofferdamError(
      'unauthenticated',
      'The Authorization header is not "Bearer cfd_" and 40 hex digits.',
    )
  }
  const caller = await keys.verify(key, addressGroup(request.ip))
  if (caller === null) throw new CofferdamError('unauthenticated', 'The API key is unknown or was revoked.')
  return caller
}

/** Like `identify`, also for access tokens. A refusal says where to log in. */
async function identifyByToken(
  request: FastifyRequest,
  reply: FastifyReply,
  keys: KeyCache,
  oauth: ResourceServer,
): Promise<Caller> {
  const { authorization } = request.headers
  try {
    const token = bearerOf(authorization ?? '')
    if (token === null || token.startsWith('cfd_')) return await identify(request, keys)
    return await oauth.verify(token)
  } catch (error) {
    if (isCofferdamError(error) && error.code === 'unauthenticated') {
      const cause = { word: 'invalid_token', description: error.message } as const
      void reply.header('www-authenticate', oauth.challenge(authorization === undefined ? null : cause))
    }
    throw error
  }
}

function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new CofferdamError('unauthenticated')
  return request.caller
}

/** Names the holder that a request counts against in `Shares`: its tenant, its admin key, or its address. */
export function holderOf({ caller, ip }: FastifyRequest): string {
  if (caller === null) return `address ${addressGroup(ip)}`
  return caller.scope === 'admin' ? `key ${caller.keyId}` : `tenant ${caller.scope.tenant_id}`
}

/** The only tenant that the caller may see. Null: all (admin). */
export function tenantScope(request: FastifyRequest): string | null {
  const { scope } = callerOf(request)
  return scope === 'admin' ? null : scope.tenant_id
}

/** Whether the caller has an admin key, and so may see secrets of tenants and details of hosts. */
export const isAdmin = (request: FastifyRequest): boolean => tenantScope(request) === null

/** Throws `forbidden` unless the caller may act for `tenantId`. */
export function requireTenant(request: FastifyRequest, tenantId: string): void {
  const own = tenantScope(request)
  if (own !== null && own !== tenantId) {
    throw new CofferdamError('forbidden', 'The API key belongs to another tenant.')
  }
}

/** The tenant of a list: the one `asked` for, else the caller's own, else all (null). Throws `forbidden`. */
export function tenantFilter(request: FastifyRequest, asked: string | undefined): string | null {
  if (asked !== undefined) requireTenant(request, asked)
  return asked ?? tenantScope(request)
}

/** The one tenant to act for. Throws `forbidden`, or `invalid_request` when an admin key names none. */
export function oneTenant(request: FastifyRequest, asked: string | undefined): string {
  const tenantId = tenantFilter(request, asked)
  if (tenantId !== null) return tenantId
  throw new CofferdamError(
    'invalid_request',
    'An admin key has no tenant of its own. Name the tenant with tenant_id.',
  )
}

/** Who is recorded as the author of a change. */
export function actorOf(request: FastifyRequest): Author {
  const { keyId, via } = callerOf(request)
  return via === undefined ? `key:${keyId}` : { actor: `key:${keyId}`, via }
}

/**
 * Returns `asked` with the template that the caller's key is bound to, if any. Throws `forbidden` when the
 * request names another template: a silent replacement would surprise the caller.
 */
export function underBoundTemplate<T extends { template_id?: string | undefined }>(
  { caller }: FastifyRequest,
  asked: T,
): T {
  const bound = caller?.templateId ?? null
  if (bound === null) return asked
  if (asked.template_id !== undefined && asked.template_id !== bound)
    throw new CofferdamError(
      'forbidden',
      `The API key is bound to the template ${bound}. Leave template_id out of the request.`,
    )
  return { ...asked, template_id: bound }
}

/**
 * Throws `forbidden` when the caller's key is bound to a template and the stored request runs under another
 * one, or under none. Otherwise such a key could run a request outside its template, or change what happens
 * to the results. In the error, `may` says what such a key can do.
 */
export function requireBoundTemplate(
  { caller }: FastifyRequest,
  stored: { template_id?: string | undefined },
  may = 'run, change and delete only routines',
): void {
  const bound = caller?.templateId ?? null
  if (bound !== null && stored.template_id !== bound)
    throw new CofferdamError(
      'forbidden',
      `The API key is bound to the template ${bound}. It may ${may} that run under it.`,
    )
}
