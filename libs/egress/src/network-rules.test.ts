import { describe, expect, it } from 'vitest'
import type { Network } from '@cofferdam/contract'
import { parseAuthority } from './host.ts'
import { narrowest, refusedByNetwork } from './network-rules.ts'

const passes = (network: Network, target: string): boolean =>
  refusedByNetwork(network, [80, 443], parseAuthority(target, 80)!) === null

describe('an allow-list', () => {
  it.each([
    ['a.example', 'a.example:443', true],
    ['A.Example', 'a.EXAMPLE.:80', true],
    ['a.example', 'a.example:8080', false],
    ['a.example', 'b.a.example:443', false],
    ['a.example', 'xa.example:443', false],
    ['a.example:8080', 'a.example:8080', true],
    ['a.example:8080', 'a.example:443', false],
    ['a.example:80', 'a.example:443', false],
    ['*.a.example', 'b.a.example:443', true],
    ['*.a.example', 'c.b.a.example:80', true],
    ['*.a.example', 'a.example:443', false],
    ['*.a.example', 'xa.example:443', false],
    ['*.a.example', 'a.example.evil:443', false],
    ['*.a.example:8443', 'b.a.example:8443', true],
    ['*.a.example:8443', 'b.a.example:443', false],
    ['1.1.1.1', '1.1.1.1:443', true],
    ['1.1.1.1', '0x1010101:443', true],
    ['*.1.1.1', '9.1.1.1:443', false],
    ['xn--bcher-kva.example', 'bücher.example:443', true],
  ])('%s and %s: %s', (entry, target, expected) => {
    expect(passes({ allow: [entry] }, target)).toBe(expected)
  })

  it('names the ports of the host when only the port is wrong', () => {
    expect(refusedByNetwork({ allow: ['a.example'] }, [80], parseAuthority('a.example:22', 80)!)).toBe(
      'the allow-list has this host with port 80, 443, not 22',
    )
  })
})

describe('the other networks', () => {
  it('allow nothing under none, and the configured ports under public', () => {
    expect(passes('none', 'a.example:80')).toBe(false)
    expect(passes('public', 'a.example:80')).toBe(true)
    expect(passes('public', '1.1.1.1:443')).toBe(true)
    expect(passes('public', 'a.example:22')).toBe(false)
  })
})

describe('narrowest', () => {
  const ceiling: Network = { allow: ['a.example', '*.b.example:8443', 'c.example:80', 'c.example:443'] }

  it.each<[string, Network, Network, Network]>([
    ['none stays none', 'none', 'public', 'none'],
    ['none under an allow-list stays none', 'none', ceiling, 'none'],
    ['public under public', 'public', 'public', 'public'],
    ['public becomes the ceiling’s list', 'public', ceiling, ceiling],
    ['a list under public is itself', { allow: ['x.example:1'] }, 'public', { allow: ['x.example:1'] }],
    ['a covered host', { allow: ['A.example.x'.slice(0, 9)] }, ceiling, { allow: ['A.example'] }],
    ['one of an entry’s ports', { allow: ['a.example:443'] }, ceiling, { allow: ['a.example:443'] }],
    ['a subdomain of a wildcard', { allow: ['x.b.example:8443'] }, ceiling, { allow: ['x.b.example:8443'] }],
    ['a narrower wildcard', { allow: ['*.x.b.example:8443'] }, ceiling, { allow: ['*.x.b.example:8443'] }],
    ['the same wildcard', { allow: ['*.b.example:8443'] }, ceiling, { allow: ['*.b.example:8443'] }],
    ['ports covered by two entries together', { allow: ['c.example'] }, ceiling, { allow: ['c.example'] }],
  ])('%s', (_what, requested, above, network) => {
    expect(narrowest(requested, above)).toEqual({ ok: true, network })
  })

  it.each<[string, Network, Network, string]>([
    ['public under none', 'public', 'none', 'public'],
    ['a list under none', { allow: ['a.example'] }, 'none', 'a.example'],
    ['another host', { allow: ['a.example', 'z.example'] }, ceiling, 'z.example'],
    ['another port', { allow: ['a.example:22'] }, ceiling, 'a.example:22'],
    ['the apex of a wildcard', { allow: ['b.example:8443'] }, ceiling, 'b.example:8443'],
    ['a wildcard under a host', { allow: ['*.a.example'] }, ceiling, '*.a.example'],
    ['a wider wildcard', { allow: ['*.example:8443'] }, ceiling, '*.example:8443'],
    ['ports beyond the wildcard’s', { allow: ['x.b.example'] }, ceiling, 'x.b.example'],
    ['no host at all', { allow: ['1.2.3.999'] }, 'public', '1.2.3.999'],
  ])('refuses %s and names the entry', (_what, requested, above, entry) => {
    expect(narrowest(requested, above)).toMatchObject({ ok: false, entry })
  })
})
