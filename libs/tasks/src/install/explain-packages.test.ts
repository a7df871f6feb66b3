import { expect, it } from 'vitest'
import { explainPackages } from './explain-packages.ts'
import { NO_PACKAGES, type PackagesSeen } from './package-access.ts'

const USUAL = 'The program exited with code 1: no such version.'
const failure = (seen: Partial<PackagesSeen>) => explainPackages({ ...NO_PACKAGES, ...seen }, USUAL)

it('returns the usual sentence when nothing was refused', () => {
  expect(failure({ packages: [{ name: 'a', version: '1' }] })).toBe(USUAL)
})

it('puts the refused packages first', () => {
  const refused = [{ name: 'evil', reason: "package evil is not on the tenant's allow-list" }]
  expect(failure({ refused })).toBe(
    `Refused were evil (package evil is not on the tenant's allow-list). ${USUAL}`,
  )
})

it('names packages whose versions were left out, unless another version was fetched', () => {
  const narrowed = [
    { name: 'demo', rule: 'demo<2' },
    { name: 'came', rule: 'came>1' },
  ]
  expect(failure({ narrowed, packages: [{ name: 'came', version: '2' }] })).toBe(
    `${USUAL} The tenant's rules left out versions of demo (allowed: demo<2).`,
  )
})

it('reports the failure of the mirror', () => {
  expect(failure({ mirrorFailures: ['the package mirror answered 500'] })).toBe(
    `${USUAL} Ask the operator, as the package mirror answered 500.`,
  )
})

it('names each host that was not reached once, and nothing that is not a host', () => {
  const refusals = [
    { target: 'index.example:443', rule: 'network', reason: 'this execution has no network' },
    { target: 'index.example:443', rule: 'network', reason: 'this execution has no network' },
    { target: 'http://user:secret@x', rule: 'invalid_request', reason: 'that is no plain host:port' },
  ] as const
  expect(failure({ refusals })).toBe(
    `${USUAL} Not reached were index.example:443 (this execution has no network).`,
  )
})

it('names at most ten packages', () => {
  const narrowed = Array.from({ length: 50 }, (_, at) => ({ name: `p${at}`, rule: `p${at}<1` }))
  expect(failure({ narrowed })).toMatch(/p9 \(allowed: p9<1\)\.$/)
})
