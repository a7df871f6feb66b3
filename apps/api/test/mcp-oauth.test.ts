/**
 * Access tokens at /mcp: which are accepted, which are refused, and what a caller without a token is told.
 */
import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createSigningKey } from '../../../infra/doubles/oauth/signing-key.ts'
import { useGuarded } from './oauth-scene.ts'

const at = useGuarded()

const nowS = (): number => Math.floor(Date.now() / 1000)
const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
const run = (source: string, more: object = {}) => ({
  name: 'run_code',
  arguments: { language: 'python', source, ...more },
})

describe('a caller without a token', () => {
  it('is told where to find the issuer, and what to ask it for', async () => {
    const { status, challenge, json } = await at.api.ask(null, 'tools/list')
    const place = new URL('/.well-known/oauth-protected-resource/mcp', at.api.url).href
    expect([status, json.error.code]).toEqual([401, 'unauthenticated'])
    expect(challenge).toBe(
      `Bearer realm="cofferdam", scope="cofferdam:run cofferdam:read cofferdam:cancel", ` +
        `resource_metadata="${place}"`,
    )
    for (const found of [place, new URL('/.well-known/oauth-protected-resource', at.api.url).href])
      expect(await (await fetch(found)).json()).toEqual({
        resource: at.api.url,
        authorization_servers: [at.api.issuer.issuer],
        scopes_supported: ['cofferdam:run', 'cofferdam:read', 'cofferdam:cancel'],
        bearer_methods_supported: ['header'],
        resource_name: 'Cofferdam',
      })
  })

  it('may still use an API key', async () => {
    const { status } = await at.api.ask(at.scene.acme.authorization.slice('Bearer '.length), 'tools/list')
    expect(status).toBe(200)
    const wrong = await at.api.ask(`cfd_${'0'.repeat(40)}`, 'tools/list')
    expect([wrong.status, wrong.json.error.message]).toEqual([401, expect.stringContaining('API key')])
  })
})

describe('a token', () => {
  it('runs code for its tenant', async () => {
    const { status, json } = await at.api.ask(at.api.token(), 'tools/call', run('hello'))
    expect([status, json.result.structuredContent.ok]).toEqual([200, true])
    const { execution_id } = json.result.structuredContent
    const { json: audit } = await at.scene.call({ url: '/v1/audit/invocations?tenant_id=acme&limit=1' })
    expect(audit.invocations[0]).toMatchObject({ execution_id, agent_id: 'mcp' })
  })

  const hs256 = async (): Promise<string> => {
    const { keys } = (await (await fetch(`${at.api.issuer.issuer}/keys`)).json()) as {
      keys: [{ kid: string }]
    }
    const { kid } = keys[0]
    const signed = `${part({ alg: 'HS256', kid, typ: 'at+jwt' })}.${at.api.token().split('.')[1]}`
    // The public key as the secret: a checker that trusts `alg` would accept it.
    const published = JSON.stringify(keys[0])
    return `${signed}.${createHmac('sha256', published).update(signed).digest('base64url')}`
  }
  const changed = (): string => {
    const [header, payload = '', signature] = at.api.token().split('.')
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object
    return [header, part({ ...claims, tenant_id: 'globex' }), signature].join('.')
  }
  const headerOf = (token: string): { kid: string } =>
    JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()) as { kid: string }
  const ofAnotherKey = (header: object): string => {
    const [, payload = ''] = at.api.token().split('.')
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as object
    const key = createSigningKey()
    return key.sign(claims, {
      kid: headerOf(at.api.token()).kid,
      ...header,
      ...('jwk' in header ? { jwk: key.jwk } : {}),
    })
  }

  it.each<[string, () => string | Promise<string>, RegExp]>([
    [
      'has no signature (alg none)',
      () => `${part({ alg: 'none' })}.${at.api.token().split('.')[1]}.`,
      /algorithm/,
    ],
    ['is signed with the public key as a secret', hs256, /algorithm/],
    ['was changed after it was signed', changed, /not valid/],
    ['is signed with another key under a known name', () => ofAnotherKey({}), /not valid/],
    ['brings its own key', () => ofAnotherKey({ jwk: true }), /not valid/],
    ['names where its key is', () => ofAnotherKey({ jku: 'http://127.0.0.1:9/keys' }), /not valid/],
    ['is of another issuer', () => at.api.token({ iss: 'https://evil.example' }), /iss/],
    ['is of the issuer with a slash more', () => at.api.token({ iss: `${at.api.issuer.issuer}/` }), /iss/],
    ['is for another server', () => at.api.token({ aud: 'https://other.example/mcp' }), /aud/],
    ['is for an address below ours', () => at.api.token({ aud: `${at.api.url}/more` }), /aud/],
    ['is for nobody', () => at.api.token({ aud: undefined }), /aud/],
    ['has expired', () => at.api.token({ exp: nowS() - 60 }), /expired/],
    ['is not valid yet', () => at.api.token({ nbf: nowS() + 600 }), /nbf/],
    ['never expires', () => at.api.token({ exp: undefined }), /exp/],
    ['expires at a word', () => at.api.token({ exp: 'never' }), /exp/],
    ['is of nobody', () => at.api.token({ sub: undefined }), /sub/],
    ['is of another kind', () => at.api.token({}, { typ: 'logout+jwt' }), /not an access token/],
    ['needs an extension', () => at.api.token({}, { crit: ['x'], x: 1 }), /not valid/],
    ['is bound to a key of the client', () => at.api.token({ cnf: { jkt: 'x' } }), /bound/],
    ['is long', () => at.api.token({ groups: 'x'.repeat(9000) }), /8 KiB/],
    ['has two parts', () => at.api.token().split('.').slice(0, 2).join('.'), /not valid/],
    ['is no JWT', () => 'secret', /not valid/],
  ])('is refused when it %s', async (_what, forge, words) => {
    const token = await forge()
    const { status, challenge, json } = await at.api.ask(token, 'tools/list')
    expect([status, json.error.code]).toEqual([401, 'unauthenticated'])
    expect(json.error.message).toMatch(words)
    expect(challenge).toMatch(/^Bearer realm="cofferdam", error="invalid_token", error_description="/)
    expect(challenge).toContain('resource_metadata=')
    expect(JSON.stringify(json) + challenge).not.toContain(token)
  })

  it('is refused before its body is read, and when it fills all headers', async () => {
    const headers = { authorization: `Bearer ${'x'.repeat(20_000)}` }
    expect((await fetch(at.api.url, { method: 'POST', headers })).status).toBe(431)
  })

  it('is accepted while the clocks differ by some seconds', async () => {
    const skewed = at.api.token({ exp: nowS() - 10, nbf: nowS() + 10 })
    expect((await at.api.ask(skewed, 'tools/list')).status).toBe(200)
  })

  it('works nowhere but at /mcp, and only in the header', async () => {
    const token = at.api.token()
    const headers = { authorization: `Bearer ${token}` }
    const elsewhere = await fetch(new URL('/v1/executions', at.api.url), { headers })
    expect([elsewhere.status, elsewhere.headers.get('www-authenticate')]).toEqual([
      401,
      'Bearer realm="cofferdam"',
    ])
    const inQuery = await fetch(`${at.api.url}?access_token=${token}`, { method: 'POST' })
    expect(inQuery.status).toBe(401)
  })

  it('goes no further than this server', async () => {
    const token = at.api.token()
    await at.scene.redis.config('SET', 'rdbcompression', 'no')
    const { json } = await at.api.ask(token, 'tools/call', run('wait', { wait_s: 0 }))
    const { execution_id } = json.result.structuredContent
    const dumps = []
    for (const key of await at.scene.redis.keys('*')) dumps.push(await at.scene.redis.dumpBuffer(key))
    const stored = Buffer.concat(dumps.filter((dump) => dump !== null)).toString('latin1')
    expect(stored).toContain(execution_id)
    expect(stored).not.toContain(token.split('.')[2])
    await at.api.ask(token, 'tools/call', { name: 'cancel_execution', arguments: { execution_id } })
  })
})
