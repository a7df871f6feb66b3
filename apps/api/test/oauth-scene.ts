/** An API whose /mcp accepts access tokens of an emulated issuer, with helpers for its tests. */
import { freePort } from '@cofferdam/embedded/testing'
import { afterAll, beforeAll } from 'vitest'
import { startOAuthDouble, type OAuthDouble } from '../../../infra/doubles/oauth/oauth-double.ts'
import type { OAuthSettings } from '../src/oauth/oauth-config.ts'
import { SCOPES } from '../src/oauth/scopes.ts'
import { post } from './mcp-client.ts'
import { openScene, type Scene } from './scene.ts'

export interface Guarded extends AsyncDisposable {
  /** The address of /mcp, which is also the resource of tokens. */
  url: string
  issuer: OAuthDouble
  /** Moves the clock of the API. */
  advance(ms: number): void
  /** A token for `url` with all scopes, of the tenant acme. `claims` and `header` override the defaults. */
  token(claims?: Record<string, unknown>, header?: Record<string, unknown>): string
  /** Sends one message with `token`. Null: without any. */
  ask(token: string | null, method: string, params?: Record<string, unknown>): Promise<Asked>
}

export interface Asked {
  status: number
  /** The header `WWW-Authenticate`. */
  challenge: string | null
  // Tests read whatever an answer contains.
  // oxlint-disable-next-line typescript/no-explicit-any
  json: any
}

/** Starts the issuer and the API. `settings` override those that fit the issuer. */
export async function openGuarded(scene: Scene, settings: Partial<OAuthSettings> = {}): Promise<Guarded> {
  const issuer = await startOAuthDouble({ tenant: 'acme' })
  const port = await freePort()
  const resource = `http://127.0.0.1:${port}/mcp`
  let skewMs = 0
  const app = await scene.another(
    {},
    {
      publicUrl: `http://127.0.0.1:${port}`,
      now: () => Date.now() + skewMs,
      oauth: {
        issuer: issuer.issuer,
        resource,
        audience: resource,
        jwksUrl: undefined,
        algorithms: ['ES256'],
        tenantClaim: 'tenant_id',
        tenants: undefined,
        agentClaim: undefined,
        ...settings,
      },
    },
  )
  await app.listen({ port, host: '127.0.0.1' })
  return {
    url: resource,
    issuer,
    advance: (ms) => {
      skewMs += ms
    },
    token: (claims = {}, header = {}) =>
      issuer.token({ aud: resource, scope: SCOPES.join(' '), ...claims }, header),
    async ask(token, method, params = {}) {
      const headers: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` }
      const answer = await post(resource, method, params, { headers })
      const text = await answer.text()
      const [, streamed] = /^data: (\{.*)$/m.exec(text) ?? []
      const challenge = answer.headers.get('www-authenticate')
      return { status: answer.status, challenge, json: JSON.parse(streamed ?? text) }
    },
    async [Symbol.asyncDispose]() {
      await app.close()
      await issuer[Symbol.asyncDispose]()
    },
  }
}

/** A scene, and an API that accepts access tokens, for one test file. Both start before its first test. */
export function useGuarded(): { readonly scene: Scene; readonly api: Guarded } {
  const at: { scene?: Scene; api?: Guarded } = {}
  beforeAll(async () => {
    at.scene = await openScene()
    at.api = await openGuarded(at.scene)
  })
  afterAll(async () => {
    await at.api?.[Symbol.asyncDispose]()
    await at.scene?.[Symbol.asyncDispose]()
  })
  return at as { scene: Scene; api: Guarded }
}
