import { describe, expect, it } from 'vitest'
import { loadConfig } from '../config.ts'

const GOOD = { REDIS_URL: 'unix:///run/redis.sock', DATABASE_URL: 'postgres://app@db/cofferdam' }
const ISSUER = 'https://login.example.com'
const PUBLIC = 'https://cofferdam.example.com/'

const load = (more: Record<string, string>) => () =>
  loadConfig({
    ...GOOD,
    COFFERDAM_OAUTH_ISSUER: ISSUER,
    COFFERDAM_PUBLIC_URL: PUBLIC,
    ...more,
  }).oauth

describe('the OAuth settings', () => {
  it('are absent without an issuer', () => {
    expect(loadConfig({ ...GOOD, COFFERDAM_PUBLIC_URL: PUBLIC }).oauth).toBeUndefined()
  })

  it('need an issuer and the public address', () => {
    expect(load({})()).toEqual({
      issuer: ISSUER,
      resource: 'https://cofferdam.example.com/mcp',
      audience: 'https://cofferdam.example.com/mcp',
      algorithms: ['RS256', 'PS256', 'ES256', 'EdDSA'],
      tenantClaim: 'tenant_id',
    })
    const fleets = { COFFERDAM_PUBLIC_URL: 'https://example.com/fleets/a/?old=1' }
    expect(load(fleets)()?.resource).toBe('https://example.com/fleets/a/mcp')
    expect(load({ COFFERDAM_PUBLIC_URL: '' })).toThrow(
      /COFFERDAM_PUBLIC_URL: COFFERDAM_OAUTH_ISSUER needs it/,
    )
  })

  it('map values of a claim to tenants', () => {
    const tenants = { COFFERDAM_OAUTH_TENANTS: 'https://id/a=b=acme, org_2=globex' }
    expect([...(load(tenants)()?.tenants ?? [])]).toEqual([
      ['https://id/a=b', 'acme'],
      ['org_2', 'globex'],
    ])
    for (const bad of ['acme', '=acme', 'org_1=', 'org_1=a b', 'org_1=acme,org_1=globex', ','])
      expect(load({ COFFERDAM_OAUTH_TENANTS: bad }), bad).toThrow(
        /COFFERDAM_OAUTH_TENANTS: expected value=tenant/,
      )
  })

  it('refuse algorithms with a shared secret, and none', () => {
    for (const bad of ['none', 'HS256', 'RS256,HS512', ','])
      expect(load({ COFFERDAM_OAUTH_ALGORITHMS: bad }), bad).toThrow(
        /COFFERDAM_OAUTH_ALGORITHMS: expected some/,
      )
    expect(load({ COFFERDAM_OAUTH_ALGORITHMS: 'RS256' })()?.algorithms).toEqual(['RS256'])
  })

  it('refuse plain http except on loopback', () => {
    for (const variable of ['COFFERDAM_OAUTH_ISSUER', 'COFFERDAM_OAUTH_JWKS_URL', 'COFFERDAM_PUBLIC_URL'])
      for (const url of ['http://login.example.com', 'http://127.0.0.1.example.com', 'http://10.0.0.1'])
        expect(load({ [variable]: url }), `${variable} ${url}`).toThrow(/https/)
    const local = {
      COFFERDAM_OAUTH_ISSUER: 'http://127.0.0.1:9',
      COFFERDAM_PUBLIC_URL: 'http://localhost:7070',
    }
    expect(load(local)()?.resource).toBe('http://localhost:7070/mcp')
    expect(load({ COFFERDAM_OAUTH_ISSUER: `${ISSUER}/?a=b` })).toThrow(/without a query/)
  })

  it('are refused when they have no effect', () => {
    const idle = { COFFERDAM_OAUTH_ISSUER: '', COFFERDAM_OAUTH_TENANTS: 'org_1=acme' }
    expect(load(idle)).toThrow(/COFFERDAM_OAUTH_TENANTS: has no effect without COFFERDAM_OAUTH_ISSUER/)
  })
})
