import type { UsageNow } from '@cofferdam/client'
import { expect, it } from 'vitest'
import { notesOf } from './cap-notes.ts'
import type { Change } from './settings/fields.ts'

const resets_at = '2026-11-27T00:00:00.000Z'
const usage: UsageNow = {
  tenant_daily: { used: 812, limit: 1000, resets_at },
  agent_hourly: null,
  tenant_daily_cpu: null,
  tenant_daily_cost: null,
  concurrency: { running: 3, limit: 8 },
  seeded: true,
}
const NOW = 'Now: 812 of 1,000 used today; 40 wait, 3 run.'
const change = (name: string, after: string): Change[] => [
  { field: { name, words: name, kind: 'number', empty: 'none' }, before: '', after },
]

it.each([
  ['tenant_daily', '900', []],
  ['tenant_daily', '', []],
  ['tenant_daily', '812', ['That much is used already: nothing more starts today (UTC).']],
  ['tenant_daily', '0', ['A cap of 0 stops the tenant: nothing starts any more.']],
  ['concurrency', '3', []],
  ['concurrency', '2', ['3 attempts run now, and go on. New ones wait.']],
  ['max_queued', '40', []],
  ['max_queued', '39', ['More wait already. They stay; new ones are refused.']],
])('says what it means that %s becomes %j', (name, after, notes) => {
  expect(notesOf(change(name, after), usage, { due: 40, waiting: 40, running: 3 })).toEqual([NOW, ...notes])
})

it('says nothing that it does not know', () => {
  expect(notesOf(change('max_queued', '1'), null, null)).toEqual([])
  expect(notesOf(change('tenant_daily', '7'), usage, null)).toEqual([
    'Now: 812 of 1,000 used today.',
    'That much is used already: nothing more starts today (UTC).',
  ])
})
