/**
 * Tokens of the double: in Entra's form, self-signed, with checked audience and expiry. They come from a
 * managed identity's endpoint (App Service and IMDS forms) and a tenant's OAuth endpoint.
 */
import { createHmac, randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { reply, textOf } from './exchange.ts'

/** Audiences that callers request. */
export const SESSIONS_AUDIENCE = 'https://dynamicsessions.io'
export const ARM_AUDIENCE = 'https://management.azure.com'

/** The principal of every token. */
export const PRINCIPAL = '00000000-0000-0000-0000-0000000000aa'

/** As long as a real token. */
const LIFE_SECONDS = 3600

export interface IdentitySettings {
  /** The expected `IDENTITY_HEADER`. */
  identityHeader: string
  /** The expected client secret. */
  clientSecret: string
  /** The expected content of a federated token file. */
  assertion: string
}

/** Issues and checks tokens. */
export class Identity {
  readonly #key = randomBytes(32)
  readonly settings: IdentitySettings
  /** Number of issued tokens by how they were obtained, such as `imds` or `az`. */
  readonly given: Record<string, number> = {}
  lifeSeconds = LIFE_SECONDS

  constructor(settings: IdentitySettings) {
    this.settings = settings
  }

  mint(audience: string, way: string): { token: string; expiresOn: number } {
    this.given[way] = (this.given[way] ?? 0) + 1
    const expiresOn = Math.floor(Date.now() / 1000) + this.lifeSeconds
    const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
    const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ aud: audience, oid: PRINCIPAL, exp: expiresOn, jti: randomBytes(8).toString('hex') })}`
    return { token: `${signed}.${this.#sign(signed)}`, expiresOn }
  }

  /** Null if the request has a valid token of ours for this audience; otherwise the reason. */
  refusal({ headers }: IncomingMessage, audience: string): string | null {
    const [head, payload, signature] = (headers.authorization ?? '').replace(/^Bearer /, '').split('.')
    if (payload === undefined || signature !== this.#sign(`${head}.${payload}`)) return 'no token of ours'
    const { aud, exp } = JSON.parse(Buffer.from(payload, 'base64url').toString()) as {
      aud: string
      exp: number
    }
    if (exp * 1000 <= Date.now()) return 'the token has expired'
    return aud === audience ? null : `the audience is ${aud}`
  }

  /** Answers a managed identity's or tenant's token endpoint; false for any other path. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const url = new URL(request.url ?? '/', 'http://double')
    const resource = (url.searchParams.get('resource') ?? '').replace(/\/$/, '')
    if (url.pathname === '/msi/token') {
      if (request.headers['x-identity-header'] !== this.settings.identityHeader)
        reply(response, 401, { error: 'unauthorized_client' })
      else this.#give(response, resource, 'managed-identity')
      return true
    }
    if (url.pathname === '/metadata/identity/oauth2/token') {
      if (request.headers['metadata'] !== 'true') reply(response, 400, { error: 'invalid_request' })
      else this.#give(response, resource, 'imds')
      return true
    }
    const [, tenant] = /^\/([\w.-]+)\/v2\.0\/\.well-known\/openid-configuration$/.exec(url.pathname) ?? []
    if (tenant !== undefined) {
      // Microsoft's library asks for an authority's token endpoint before it requests a token.
      const base = `https://${request.headers.host ?? ''}/${tenant}`
      reply(response, 200, {
        issuer: `${base}/v2.0`,
        authorization_endpoint: `${base}/oauth2/v2.0/authorize`,
        token_endpoint: `${base}/oauth2/v2.0/token`,
        jwks_uri: `${base}/discovery/v2.0/keys`,
      })
      return true
    }
    if (!/^\/[\w.-]+\/oauth2\/v2\.0\/token$/.test(url.pathname)) return false
    const form = new URLSearchParams(await textOf(request))
    const bySecret = form.get('client_secret') === this.settings.clientSecret
    const byAssertion = form.get('client_assertion') === this.settings.assertion
    if (!bySecret && !byAssertion) {
      reply(response, 401, { error: 'invalid_client' })
      return true
    }
    const audience = (form.get('scope') ?? '').replace(/\/\.default$/, '')
    const { token } = this.mint(audience, bySecret ? 'client-secret' : 'workload-identity')
    reply(response, 200, { token_type: 'Bearer', expires_in: this.lifeSeconds, access_token: token })
    return true
  }

  #give(response: ServerResponse, resource: string, way: string): void {
    const { token, expiresOn } = this.mint(resource, way)
    const fields = { token_type: 'Bearer', resource, client_id: '00000000-0000-0000-0000-000000000001' }
    reply(response, 200, { access_token: token, expires_on: String(expiresOn), ...fields })
  }

  #sign(text: string): string {
    return createHmac('sha256', this.#key).update(text).digest('base64url')
  }
}
