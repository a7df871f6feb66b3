import { narrowest } from '@cofferdam/egress'
import fc from 'fast-check'
import { DEFAULT_TENANT_RULES, type Network, type TenantPolicy } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { effectivePolicy, narrowerNetwork } from './effective-policy.ts'

const TENANT: TenantPolicy = {
  tenant_id: 'acme',
  sandbox_enabled: true,
  compliance_tier: 'standard',
  min_isolation: 'container',
  environments: ['default-public'],
  retention_days: 30,
  redact: [],
  ...DEFAULT_TENANT_RULES,
}

describe('effectivePolicy', () => {
  it("is the tenant's policy without a template, or with a template without settings", () => {
    expect(effectivePolicy(TENANT, null)).toEqual(TENANT)
    expect(effectivePolicy(TENANT, { environment: 'internal-only' })).toEqual(TENANT)
  })

  it('takes the stricter of both for each setting', () => {
    const strict = {
      network: 'none',
      min_isolation: 'gvisor',
      retention_days: 7,
      encrypt_outputs: true,
    } as const
    const lax = {
      network: 'public',
      min_isolation: 'none',
      retention_days: 180,
      encrypt_outputs: false,
    } as const
    const environment = 'default-public'
    expect(effectivePolicy({ ...TENANT, ...lax }, { environment, ...strict })).toEqual({
      ...TENANT,
      ...strict,
    })
    expect(effectivePolicy({ ...TENANT, ...strict }, { environment, ...lax })).toEqual({
      ...TENANT,
      ...strict,
    })
  })
})

const allow = (...hosts: string[]): Network => ({ allow: hosts })

describe('narrowerNetwork', () => {
  it.each<[Network, Network, Network]>([
    ['none', 'public', 'none'],
    ['none', allow('a.example'), 'none'],
    ['public', 'public', 'public'],
    ['public', allow('a.example'), allow('a.example')],
    [allow('a.example', 'b.example'), allow('b.example', 'c.example'), allow('b.example')],
    [allow('a.example'), allow('b.example'), 'none'],
    [allow('*.example.com'), allow('a.example.com'), allow('a.example.com')],
    [allow('*.example.com'), allow('*.b.example.com'), allow('*.b.example.com')],
    [allow('*.example.com'), allow('example.com', 'notexample.com'), 'none'],
    [allow('a.example'), allow('A.EXAMPLE:443'), allow('a.example:443')],
    [allow('a.example:80'), allow('a.example:443'), 'none'],
    [allow('*.example.com:443'), allow('a.example.com'), allow('a.example.com:443')],
    [allow('a.example'), allow('a.example:8443'), 'none'],
    [allow('*.example.com'), allow('a.example.com:8443', 'a.example.com:80'), allow('a.example.com:80')],
  ])('of %j and %j is %j, in either order', (a, b, both) => {
    expect(narrowerNetwork(a, b)).toEqual(both)
    expect(narrowerNetwork(b, a)).toEqual(both)
  })

  it('is covered by both, as egress reads them', () => {
    const entry = fc
      .tuple(
        fc.constantFrom(
          'a.example.com',
          'b.a.example.com',
          '*.example.com',
          '*.a.example.com',
          'example.com',
          '*.1.1.1',
          '9.1.1.1',
        ),
        fc.constantFrom('', ':80', ':443', ':8443'),
      )
      .map(([host, port]) => host + port)
    const list = fc.uniqueArray(entry, { minLength: 1, maxLength: 5 }).map((hosts) => allow(...hosts))
    fc.assert(
      fc.property(list, list, (a, b) => {
        const both = narrowerNetwork(a, b)
        for (const ceiling of [a, b]) expect(narrowest(both, ceiling)).toEqual({ ok: true, network: both })
      }),
    )
  })
})
