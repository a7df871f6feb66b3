import { compileRules, isNever } from '@cofferdam/workspace-sync'
import { expect, test } from 'vitest'
import {
  BLACKLIST,
  DEFAULT_WHITELIST,
  refuseBlacklisted,
  rulesOfWhitelist,
  whitelistWarnings,
} from './whitelist.ts'

test('syncs the default whitelist in both directions, except secrets and control files', () => {
  const rules = compileRules(rulesOfWhitelist(DEFAULT_WHITELIST))
  expect(DEFAULT_WHITELIST).toHaveLength(17)
  const inward = DEFAULT_WHITELIST.filter((entry) => rules.refusesIn(entry) === null)
  expect(DEFAULT_WHITELIST.filter((entry) => !inward.includes(entry))).toEqual(['.env'])
  const outward = inward.filter((entry) => rules.refusesOut(entry) === null)
  expect(inward.filter((entry) => !outward.includes(entry))).toEqual([
    'skills',
    '.copilot',
    'mcp_servers.json',
    'plugins.json',
    'scheduler.json',
  ])
  expect(rules.refusesIn('memory/2026/notes.md')).toBeNull()
  expect(rules.refusesIn('other.txt')).toBe('no_rule')
  expect(whitelistWarnings(['.env', 'notes'])).toEqual([
    '.env holds secrets: it is never carried, whatever the whitelist says.',
  ])
})

test.each([
  '.azure',
  '.azure/',
  './.azure',
  '.AZURE',
  'x/.azure/y',
  '.\u200bazure',
  '.azure.',
  '.azure::$DATA',
])('refuses a blacklisted entry spelled %j', (entry) => {
  expect(() => refuseBlacklisted(entry)).toThrow('blacklisted')
})

test('never syncs a blacklisted folder, at any depth', () => {
  for (const name of BLACKLIST) expect(isNever(`a/b/${name}/c`)).toBe(true)
})
