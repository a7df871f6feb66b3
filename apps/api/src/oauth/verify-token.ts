/**
 * Verifies access tokens of the configured issuer (RFC 9068, RFC 8725). A token is a JWT that is meant for
 * this server, signed with an allowed algorithm, and not expired. `jose` checks the signature and the
 * registered claims.
 */
import { createHash } from 'node:crypto'
import { CofferdamError, isCofferdamError, nameSchema } from '@cofferdam/contract'
import type { JWTPayload, JWTVerifyGetKey } from 'jose'
import type { Caller } from '../key-cache.ts'
import type { OAuthSettings } from './oauth-config.ts'
import { scopesOf } from './scopes.ts'

/** Longer tokens are refused unread. Those of Entra with all groups of a user have 5 KiB. */
const TOKEN_MAX = 8192

/** How far the clocks of the issuer and of this server may be apart. */
const CLOCK_TOLERANCE_S = 30

/**
 * The `typ` values of access tokens. Other JWTs of the issuer, such as logout tokens, have another `typ` and
 * must be refused.
 */
const TYPES: ReadonlySet<string> = new Set(['jwt', 'at+jwt', 'application/at+jwt'])

/** Returns who presents a token. */
export type VerifyToken = (token: string) => Promise<Caller>

/**
 * Creates the check. It throws `unauthenticated` for a token that is not valid here, `forbidden` for a valid
 * one without a tenant, and `issuer_unavailable`.
 */
export function createTokenVerifier(
  settings: OAuthSettings,
  keys: JWTVerifyGetKey,
  now: () => number,
): VerifyToken {
  const { issuer, audience, algorithms } = settings
  return async (token) => {
    if (token.length > TOKEN_MAX)
      throw new CofferdamError('unauthenticated', 'The access token is longer than 8 KiB.')
    // Loaded with the first token: most servers have no issuer.
    const { jwtVerify } = await import('jose')
    const { payload, protectedHeader } = await jwtVerify(token, keys, {
      issuer,
      audience,
      algorithms,
      clockTolerance: CLOCK_TOLERANCE_S,
      requiredClaims: ['exp', 'sub'],
      currentDate: new Date(now()),
    }).catch((error: unknown) => {
      throw isCofferdamError(error) ? error : invalid(error)
    })
    if (protectedHeader.typ !== undefined && !TYPES.has(protectedHeader.typ.toLowerCase()))
      throw new CofferdamError('unauthenticated', 'The token is not an access token.')
    // A token with `cnf` is bound to a key of the client (RFC 7800). This server cannot check that key.
    if (payload['cnf'] !== undefined)
      throw new CofferdamError('unauthenticated', 'Access tokens that are bound to a key are not supported.')
    return callerOf(settings, payload)
  }
}

function callerOf(settings: OAuthSettings, payload: JWTPayload): Caller {
  const { iss = '', sub = '', exp = 0, client_id } = payload
  // The same for every token of one user and client, so that repeated calls are recognized.
  const holder = createHash('sha256').update(JSON.stringify([iss, sub, client_id]))
  return {
    keyId: `oauth:${holder.digest('hex').slice(0, 32)}`,
    scope: { tenant_id: tenantOf(settings, payload) },
    templateId: null,
    readOnly: false,
    grant: {
      scopes: scopesOf(payload),
      agentId: agentOf(settings, payload),
      expiresAtMs: (exp + CLOCK_TOLERANCE_S) * 1000,
    },
  }
}

const claimOf = (payload: JWTPayload, name: string): unknown =>
  Object.hasOwn(payload, name) ? payload[name] : undefined

function tenantOf({ tenantClaim, tenants }: OAuthSettings, payload: JWTPayload): string {
  const value = claimOf(payload, tenantClaim)
  const named = typeof value === 'string' ? (tenants === undefined ? value : tenants.get(value)) : undefined
  const tenantId = nameSchema.safeParse(named).data
  if (tenantId === undefined)
    throw new CofferdamError('forbidden', 'The access token names no tenant of this server.')
  return tenantId
}

function agentOf({ agentClaim }: OAuthSettings, payload: JWTPayload): string | null {
  if (agentClaim === undefined) return null
  const agentId = nameSchema.safeParse(claimOf(payload, agentClaim)).data
  if (agentId === undefined)
    throw new CofferdamError('forbidden', 'The access token names no agent, or none of a valid name.')
  return agentId
}

/** What is wrong, without any part of the token. */
function invalid(cause: unknown): CofferdamError {
  const { code, claim } = cause as { code?: unknown; claim?: unknown }
  const words =
    code === 'ERR_JWT_EXPIRED'
      ? 'The access token has expired.'
      : code === 'ERR_JOSE_ALG_NOT_ALLOWED'
        ? 'The access token is signed with an algorithm that is not allowed here.'
        : code === 'ERR_JWT_CLAIM_VALIDATION_FAILED' && typeof claim === 'string'
          ? `The claim ${claim} of the access token does not fit this server or this time.`
          : 'The access token is not valid.'
  return new CofferdamError('unauthenticated', words, { cause })
}
