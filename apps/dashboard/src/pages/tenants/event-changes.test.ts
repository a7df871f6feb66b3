import { expect, it } from 'vitest'
import { changedLines } from './event-changes.ts'

it('shows only the fields that differ', () => {
  expect(
    changedLines('caps', { weight: 1, burst: 2, agents: { a: 1 } }, { weight: 3, burst: 2, agents: {} }),
  ).toEqual([
    { name: 'weight', before: '1', after: '3' },
    { name: 'agents', before: '{"a":1}', after: '{}' },
  ])
})

it('names a single value by the part, and tells a text from a number', () => {
  expect(changedLines('retention_days', 30, 7)).toEqual([
    { name: 'retention_days', before: '30', after: '7' },
  ])
  expect(changedLines('network', 'public', { allow: ['a'] })).toEqual([
    { name: 'network', before: '"public"', after: '{"allow":["a"]}' },
  ])
})

it('shows what was made or is gone', () => {
  expect(changedLines('key_created', null, { label: '<b>' })).toEqual([
    { name: 'label', before: null, after: '"<b>"' },
  ])
  expect(changedLines('template', { a: null }, null)).toEqual([{ name: 'a', before: 'null', after: null }])
  expect(changedLines('deleted', null, null)).toEqual([])
})

it('bounds what it shows', () => {
  const many = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`f${index}`, 'x'.repeat(5000)]))
  const lines = changedLines('caps', many, null)
  expect(lines).toHaveLength(40)
  expect(lines[0]?.before).toHaveLength(201)
})
