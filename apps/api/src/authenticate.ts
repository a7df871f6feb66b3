/**
 * Who calls, and what of. Keys are `Authorization: Bearer cfd_<40 hex>`; an admin key may do everything, a tenant
 * key only what concerns its tenant. Naming another tenant is refused with 403; executions of another tenant are
 * 404, so that nobody learns which ids exist.
 */
import { CofferdamError } from '@cofferdam/contract'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { addressGroup } from './address-group.ts'
import type { Caller, KeyCache } from './key-cache.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by `authenticate`; null on open paths. */
    caller: Caller | null
    /** 32 hex digits: the trace this request belongs to. */
    traceId: string
  }
  interface FastifyContextConfig {
    /** Admin keys only. */
    admin?: boolean
  }
}

/** Guards every route of `app`, before its body is read. */
export function authenticate(app: FastifyInstance, keys: KeyCache): void {
  app.addHook('onRequest', async (request) => {
    const { config } = request.routeOptions
    const caller = await identify(request, keys)
    request.caller = caller
    if (config.admin === true && caller.scope !== 'admin') {
      throw new CofferdamError('forbidden', 'Only an admin key may do this.')
    }
  })
}

/** The caller of a request by its key. Throws `unauthenticated`, `rate_limited` or `store_unavailable`. */
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

/** The authenticated caller. */
function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new CofferdamError('unauthenticated')
  return request.caller
}

/**
 * Whose share a request takes of what this process holds at once: the tenant, whichever of its keys it came
 * with; an admin key for itself; the address while there is no key.
 */
export function holderOf({ caller, ip }: FastifyRequest): string {
  if (caller === null) return `address ${addressGroup(ip)}`
  return caller.scope === 'admin' ? `key ${caller.keyId}` : `tenant ${caller.scope.tenant_id}`
}

/** The only tenant that the caller may see; null for all (admin). */
export function tenantScope(request: FastifyRequest): string | null {
  const { scope } = callerOf(request)
  return scope === 'admin' ? null : scope.tenant_id
}

/** Throws `forbidden` unless the caller may act for `tenantId`. */
export function requireTenant(request: FastifyRequest, tenantId: string): void {
  const own = tenantScope(request)
  if (own !== null && own !== tenantId) {
    throw new CofferdamError('forbidden', 'The API key belongs to another tenant.')
  }
}

/** The tenant that a list is filtered by: the one asked for when allowed, else the caller's own, else all (null). */
export function tenantFilter(request: FastifyRequest, asked: string | undefined): string | null {
  if (asked !== undefined) requireTenant(request, asked)
  return asked ?? tenantScope(request)
}

/** Who is written down as the author of a change. */
export const actorOf = (request: FastifyRequest): string => `key:${callerOf(request).keyId}`
