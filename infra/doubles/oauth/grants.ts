/** Codes and tokens of the double: PKCE (RFC 7636), resource indicators (RFC 8707), refresh tokens. */
import { createHash, randomUUID } from 'node:crypto'

/** What a person has approved. */
export interface Approved {
  clientId: string
  scope: string
  /** The claim `aud` of the tokens. */
  resource: string
}

/** A refusal by /authorize or /token. `word` is the error code of RFC 6749 (4.1.2.1, 5.2) or RFC 8707. */
export class GrantError extends Error {
  readonly word: string
  constructor(word: string) {
    super(word)
    this.word = word
  }
}

export interface Grants {
  /** Approves at once: there is no login. Returns the code. Throws `GrantError`. */
  approve(query: URLSearchParams): string
  /** Redeems a code, a refresh token, or client credentials, which it does not check. Throws `GrantError`. */
  redeem(form: URLSearchParams): { approved: Approved; refreshToken: string | null }
}

/** Limit of the codes in memory, and of the refresh tokens. Beyond it, the oldest is forgotten. */
const MAX_KEPT = 1000

const need = (fields: URLSearchParams, name: string): string => {
  const value = fields.get(name)
  if (value === null || value === '') throw new GrantError('invalid_request')
  return value
}

export function createGrants(): Grants {
  const codes = new Map<string, Approved & { challenge: string; redirectUri: string }>()
  const refreshable = new Map<string, Approved>()

  const keep = <T>(map: Map<string, T>, value: T): string => {
    const [oldest] = map.keys()
    if (map.size >= MAX_KEPT && oldest !== undefined) map.delete(oldest)
    const name = randomUUID()
    map.set(name, value)
    return name
  }
  const approvedBy = (fields: URLSearchParams): Approved => ({
    clientId: need(fields, 'client_id'),
    scope: fields.get('scope') ?? '',
    resource: need(fields, 'resource'),
  })

  return {
    approve(query) {
      if (query.get('response_type') !== 'code') throw new GrantError('unsupported_response_type')
      if (query.get('code_challenge_method') !== 'S256') throw new GrantError('invalid_request')
      const [challenge, redirectUri] = [need(query, 'code_challenge'), need(query, 'redirect_uri')]
      return keep(codes, { ...approvedBy(query), challenge, redirectUri })
    },
    redeem(form) {
      switch (form.get('grant_type')) {
        case 'authorization_code': {
          const code = need(form, 'code')
          const asked = codes.get(code)
          // A code works once.
          codes.delete(code)
          const digest = createHash('sha256').update(need(form, 'code_verifier')).digest('base64url')
          if (asked?.challenge !== digest || asked.redirectUri !== need(form, 'redirect_uri'))
            throw new GrantError('invalid_grant')
          if (form.get('resource') !== asked.resource) throw new GrantError('invalid_target')
          return { approved: asked, refreshToken: keep(refreshable, asked) }
        }
        case 'refresh_token': {
          const token = need(form, 'refresh_token')
          const approved = refreshable.get(token)
          refreshable.delete(token)
          if (approved === undefined) throw new GrantError('invalid_grant')
          return { approved, refreshToken: keep(refreshable, approved) }
        }
        case 'client_credentials':
          return { approved: approvedBy(form), refreshToken: null }
        default:
          throw new GrantError('unsupported_grant_type')
      }
    },
  }
}
