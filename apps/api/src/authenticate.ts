/**
 * Decides who calls, and for which tenant. An admin key (`Authorization: Bearer cfd_<40 hex>`) may do
 * everything, a tenant key only what concerns its tenant. A request that names another tenant gets 403. An
 * execution of another tenant gets 404, so that nobody learns which IDs exist.
 */
import { CofferdamError } from '@cofferdam/contract'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { addressGroup, type Caller, type KeyCache } from './key-cache.ts'

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

/** Guards every route of `app` before its body is read. Paths below `/tenants/:id` need that tenant's key. */
export function authenticate(app: FastifyInstance, keys: KeyCache): void {
  app.addHook('onRequest', async (request) => {
    const { config } = request.routeOptions
    const caller = await identify(request, keys)
    request.caller = caller
    if (config.admin === true && caller.scope !== 'admin') {
      throw new CofferdamError('forbidden', 'Only an admin key may do this.')
    }
  })
  app.addHook('preHandler', async (request) => {
    // By position, so that a route that names the tenant differently does not escape the check.
    const [, name] = /^\/v1\/tenants\/:(\w+)/.exec(request.routeOptions.url ?? '') ?? []
    if (name !== undefined) requireTenant(request, (request.params as Record<string, string>)[name] ?? '')
  })
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

function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new CofferdamError('unauthenticated')
  return request.caller
}

/** Whose share of this process's resources a request uses: its tenant's, admin key's, or address's. */
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
export const actorOf = (request: FastifyRequest): string => `key:${callerOf(request).keyId}`

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
 * one, or under none. Otherwise such a key could run it, or change what becomes of its results.
 */
export function requireBoundTemplate(
  { caller }: FastifyRequest,
  stored: { template_id?: string | undefined },
): void {
  const bound = caller?.templateId ?? null
  if (bound !== null && stored.template_id !== bound)
    throw new CofferdamError(
      'forbidden',
      `The API key is bound to the template ${bound}. It may run, change and delete only routines that run under it.`,
    )
}
