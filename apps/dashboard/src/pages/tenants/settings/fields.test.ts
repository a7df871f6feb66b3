import { expect, it } from 'vitest'
import { changesOf, draftOf, othersOf, patchOf, wordsOf, type Field } from './fields.ts'

const daily: Field = { name: 'tenant_daily', words: 'Daily', kind: 'number', empty: 'the fleet’s' }
const weight: Field = { name: 'weight', words: 'Weight', kind: 'number', fraction: true }
const flag: Field = { name: 'sandbox_enabled', words: 'Sandbox', kind: 'flag' }
const fields = [daily, weight, flag]
const read = { tenant_daily: null, weight: 1, sandbox_enabled: true, agents: { analyst: 3 } }

it('changes nothing that was not touched, and takes numbers for what they are', () => {
  const draft = draftOf(fields, read)
  expect(draft).toEqual({ tenant_daily: '', weight: '1', sandbox_enabled: 'true' })
  expect(changesOf(fields, read, { ...draft, weight: '1.0' })).toEqual([])
})

it('sends only what was changed, with null for an empty field', () => {
  const from = { ...read, tenant_daily: 7 }
  const changes = changesOf(fields, from, { tenant_daily: '', weight: '0.50', sandbox_enabled: 'false' })
  expect(patchOf(changes)).toEqual({ tenant_daily: null, weight: 0.5, sandbox_enabled: false })
  expect(patchOf(changesOf(fields, read, { ...draftOf(fields, read), tenant_daily: '0' }))).toEqual({
    tenant_daily: 0,
  })
})

it('names what somebody else changed, but not what has the wanted value already', () => {
  const draft = { ...draftOf(fields, read), tenant_daily: '500' }
  expect(othersOf(fields, read, { ...read, tenant_daily: 9 }, draft)).toEqual([daily])
  expect(othersOf(fields, read, { ...read, tenant_daily: 500 }, draft)).toEqual([])
  expect(othersOf(fields, read, { ...read, weight: 2 }, draft)).toEqual([weight])
  expect(othersOf(fields, read, read, draft)).toEqual([])
})

it.each([
  [daily, '', 'the fleet’s'],
  [daily, '12000', '12,000'],
  [weight, '0.25', '0.25'],
  [flag, 'false', 'no'],
])('puts %j with %j into words', (field, text, words) => {
  expect(wordsOf(field, text)).toBe(words)
})
