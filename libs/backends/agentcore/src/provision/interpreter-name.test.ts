import { describe, expect, it } from 'vitest'
import { creationToken, interpreterName, isOurName, roleName } from './interpreter-name.ts'

const AT_THE_SERVICE = /^[a-zA-Z][a-zA-Z0-9_]{0,47}$/
const TENANTS = [
  'acme',
  'Acme',
  'a.c-m@e',
  '0',
  '_',
  'x'.repeat(128),
  `${'x'.repeat(127)}y`,
  'Ünï'.normalize(),
]

describe('names of interpreters', () => {
  it('are valid, unique per tenant and environment, and recognised by the garbage collector', () => {
    const names = TENANTS.flatMap((tenant) =>
      (['default-public', 'internal-only'] as const).map((environment) =>
        interpreterName('cofferdam12x', tenant, environment),
      ),
    )
    for (const name of names) {
      expect(name).toMatch(AT_THE_SERVICE)
      expect(isOurName('cofferdam12x', name)).toBe(true)
    }
    expect(new Set(names).size).toBe(names.length)
    expect(interpreterName('cofferdam', 'acme', 'default-public')).toBe('cofferdam_acme_822b33ad87c148a0_pub')
    expect(roleName('cofferdam', 'acme')).toBe('cofferdam_acme_822b33ad87c148a0')
  })

  it.each([
    ['prod', interpreterName('staging', 'acme', 'default-public')],
    ['prod', interpreterName('prod2', 'acme', 'default-public')],
    ['prod2', interpreterName('prod', 'acme', 'default-public')],
    ['prod', 'prod_acme_822b33ad87c148a0_pub_2'],
    ['prod', 'prod_acme_default'],
    ['prod', 'my_prod_acme_822b33ad87c148a0_pub'],
  ])('of deployment %s are not taken for %s', (prefix, name) => {
    expect(isOurName(prefix, name)).toBe(false)
  })

  it('get a new creation token after an interpreter is forgotten and for other settings', () => {
    const tokens = [1, 2].flatMap((generation) =>
      ['a', 'b'].map((name) => creationToken(name, generation, {})),
    )
    tokens.push(creationToken('a', 1, { network: 'VPC' }))
    expect(new Set(tokens).size).toBe(5)
    for (const token of tokens) expect(token).toMatch(/^[a-zA-Z0-9]{33,256}$/)
    expect(creationToken('a', 1, {})).toBe(creationToken('a', 1, {}))
  })
})
