import type { BackendReport, Executor } from '@cofferdam/executor'
import { expect, it } from 'vitest'
import { createOffers } from './publish-backends.ts'

it('offers working backends with a closed circuit breaker, as the same array until that changes', () => {
  const capabilities = {
    programs: [],
    languages: [],
    network: [],
    sessions: [],
    preloads: [],
    measures: [],
    maxMs: null,
  } as unknown as BackendReport['capabilities']
  const report = (name: string, ok: boolean): BackendReport => ({
    name,
    isolation: 'container',
    probe: ok ? { ok, features: [] } : { ok, why: '', fix: '' },
    capabilities,
    circuit: 'closed',
  })
  const resting = new Set<string>()
  const executor = {
    memory: { totalBytes: 0 },
    circuit: (name) => (resting.has(name) ? 'open' : 'half-open'),
  } as Pick<Executor, 'memory' | 'circuit'>
  const offersOf = createOffers(executor)
  const reports = [report('a', true), report('b', true), report('c', false)]
  const named = () =>
    ['a', 'b', 'c'].filter((name) => offersOf(reports).some((offer) => offer.has(`backend=${name}`)))
  expect(named()).toEqual(['a', 'b'])
  expect(offersOf(reports)).toBe(offersOf(reports))
  resting.add('a')
  expect(named()).toEqual(['b'])
  expect(offersOf(reports)).toBe(offersOf(reports))
  resting.clear()
  expect(named()).toEqual(['a', 'b'])
})
