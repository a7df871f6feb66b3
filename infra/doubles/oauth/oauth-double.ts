/**
 * An OAuth 2.1 authorization server on loopback. It approves everybody, so it is for tests and trials only.
 *
 *   metadata (RFC 8414) ─ /register (RFC 7591) ─ /authorize, approves at once ─ /token ─ /keys
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { listen, type MirrorServer } from '@cofferdam/backend-remote/double'
import { createGrants, GrantError, type Approved } from './grants.ts'
import { createSigningKey } from './signing-key.ts'

export interface OAuthDoubleOptions {
  /** Default 0: any free one. */
  port?: number
  /** The claim `tenant_id` of the tokens that clients get. Default `demo`. */
  tenant?: string
  /** Lifetime of tokens, seconds. Default 3600. */
  ttlS?: number
}

export interface OAuthDouble extends MirrorServer {
  issuer: string
  /**
   * A token with these claims and header fields besides the usual ones. A claim that is undefined is left
   * out.
   */
  token(claims?: Record<string, unknown>, header?: Record<string, unknown>): string
  /** Signs with another key from now on. The old one is no longer published. */
  rotateKeys(): void
}

const BODY_MAX = 64 * 1024

export async function startOAuthDouble(options: OAuthDoubleOptions = {}): Promise<OAuthDouble> {
  const { port = 0, tenant = 'demo', ttlS = 3600 } = options
  const grants = createGrants()
  let key = createSigningKey()
  let issuer = ''

  const token: OAuthDouble['token'] = (claims = {}, header = {}) => {
    const nowS = Math.floor(Date.now() / 1000)
    const usual = { iss: issuer, sub: 'user-1', client_id: 'client-1', tenant_id: tenant, iat: nowS }
    return key.sign({ ...usual, exp: nowS + ttlS, jti: randomUUID(), ...claims }, header)
  }
  const issue = ({ clientId, scope, resource }: Approved): object => ({
    access_token: token({ client_id: clientId, aud: resource, scope }),
    token_type: 'Bearer',
    expires_in: ttlS,
    scope,
  })

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', issuer)
    switch (`${request.method} ${pathname}`) {
      case 'GET /.well-known/oauth-authorization-server':
        return send(response, 200, metadataOf(issuer))
      case 'GET /keys':
        return send(response, 200, { keys: [key.jwk] })
      case 'POST /register': {
        const asked = JSON.parse(await bodyOf(request)) as object
        return send(response, 201, { ...asked, client_id: randomUUID() })
      }
      case 'GET /authorize': {
        const back = new URL(searchParams.get('redirect_uri') ?? '')
        back.searchParams.set('code', grants.approve(searchParams))
        // So that a client notices an answer of another issuer (RFC 9207).
        back.searchParams.set('iss', issuer)
        const state = searchParams.get('state')
        if (state !== null) back.searchParams.set('state', state)
        response.writeHead(302, { location: back.href }).end()
        return
      }
      case 'POST /token': {
        const { approved, refreshToken } = grants.redeem(new URLSearchParams(await bodyOf(request)))
        const more = refreshToken === null ? {} : { refresh_token: refreshToken }
        return send(response, 200, { ...issue(approved), ...more })
      }
      default:
        send(response, 404, { error: 'not_found' })
    }
  }

  const server = await listen(port, (request, response) => {
    answer(request, response).catch((error: unknown) =>
      send(response, 400, { error: error instanceof GrantError ? error.word : 'invalid_request' }),
    )
  })
  issuer = `http://127.0.0.1:${server.port}`
  return Object.assign(server, {
    issuer,
    token,
    rotateKeys: () => {
      key = createSigningKey()
    },
  })
}

const metadataOf = (issuer: string): object => ({
  issuer,
  authorization_endpoint: `${issuer}/authorize`,
  token_endpoint: `${issuer}/token`,
  registration_endpoint: `${issuer}/register`,
  jwks_uri: `${issuer}/keys`,
  response_types_supported: ['code'],
  grant_types_supported: ['authorization_code', 'refresh_token', 'client_credentials'],
  code_challenge_methods_supported: ['S256'],
  token_endpoint_auth_methods_supported: ['none'],
  authorization_response_iss_parameter_supported: true,
})

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' })
  response.end(JSON.stringify(body))
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > BODY_MAX) throw new GrantError('invalid_request')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
