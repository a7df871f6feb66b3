/**
 * /mcp as an OAuth 2.1 resource server. It only checks tokens: it issues none, and passes none on.
 *
 *   no token ─► 401 with the address of the metadata ─► the client finds the issuer, logs in, and comes back
 *   valid token, scope missing ─► 403 with all scopes, so that one more login is enough
 */
import { CofferdamError } from '@cofferdam/contract'
import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import { createIssuerKeys } from './issuer-keys.ts'
import type { OAuthSettings } from './oauth-config.ts'
import { permits, type Scope, SCOPES } from './scopes.ts'
import { createTokenVerifier, type VerifyToken } from './verify-token.ts'

export interface ResourceServer {
  verify: VerifyToken
  /**
   * The header `WWW-Authenticate` of a refusal (RFC 6750, RFC 9728). `error` is null when the request had no
   * `Authorization` header.
   */
  challenge(error: { word: 'invalid_token' | 'insufficient_scope'; description: string } | null): string
  /** The document of RFC 9728. */
  metadata: Record<string, unknown>
  /** Paths under which the document is served: with the path of the resource, with /mcp, and with neither. */
  metadataPaths: string[]
}

const WELL_KNOWN = '/.well-known/oauth-protected-resource'

/** Creates the resource server. It reads the issuer's keys when the first token comes. */
export function createResourceServer(
  settings: OAuthSettings,
  { now, logger }: { now: () => number; logger?: FastifyBaseLogger },
): ResourceServer {
  const { issuer, jwksUrl, resource, audience, tenantClaim } = settings
  // Logged so that no operator accepts tokens without knowing it.
  logger?.info({ issuer, audience, tenant_claim: tenantClaim }, '/mcp accepts access tokens of an issuer')
  const onFailure = (error: unknown): void =>
    logger?.warn({ err: error, issuer }, 'the keys of the OAuth issuer were not read')
  const { origin, pathname } = new URL(resource)
  const place = `${WELL_KNOWN}${pathname}`
  return {
    verify: createTokenVerifier(settings, createIssuerKeys({ issuer, jwksUrl, now, onFailure }), now),
    challenge: (error) =>
      [
        'Bearer realm="cofferdam"',
        ...(error === null
          ? []
          : [`error="${error.word}"`, `error_description="${error.description.replaceAll(/["\\]/g, '')}"`]),
        `scope="${SCOPES.join(' ')}"`,
        `resource_metadata="${origin}${place}"`,
      ].join(', '),
    metadata: {
      resource,
      authorization_servers: [issuer],
      scopes_supported: SCOPES,
      bearer_methods_supported: ['header'],
      resource_name: 'Cofferdam',
    },
    // Also served without the path before /mcp, because a proxy may strip it.
    metadataPaths: [...new Set([place, `${WELL_KNOWN}/mcp`, WELL_KNOWN])],
  }
}

/** A token in `Authorization: Bearer …` (RFC 6750). Null for anything else. */
export const bearerOf = (header: string): string | null =>
  /^bearer +([A-Za-z0-9._~+/-]+=*)$/i.exec(header)?.[1] ?? null

/** What a read-only key is told when it is used for a change. */
export const READ_ONLY =
  'The API key is read-only: it may look at everything that it is for, and change nothing. Use another key.'

/**
 * Throws `forbidden` unless the caller's token has all scopes of `required`. API keys have all scopes.
 * Read-only keys have only `cofferdam:read`.
 */
export function requireScopes(
  { caller }: FastifyRequest,
  reply: FastifyReply,
  oauth: ResourceServer | undefined,
  required: ReadonlySet<Scope>,
): void {
  const missing = [...required].filter((scope) => caller === null || !permits(caller, scope))
  if (missing.length === 0) return
  if (caller?.readOnly === true) throw new CofferdamError('forbidden', READ_ONLY)
  const description = `The access token lacks the scope ${missing.join(' ')}.`
  if (oauth !== undefined)
    void reply.header('www-authenticate', oauth.challenge({ word: 'insufficient_scope', description }))
  throw new CofferdamError('forbidden', description)
}
