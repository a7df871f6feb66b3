/** Which paths are copied in which direction, and that no spelling bypasses the never-list. */
import { scheduleSeed } from '@cofferdam/embedded/testing'
import { compileRules, isNever } from '@cofferdam/workspace-sync'
import fc from 'fast-check'
import { expect, test } from 'vitest'

test('without rules every file is copied in both directions, but control files only into the sandbox', () => {
  const rules = compileRules()
  expect(rules.refusesIn('src/main.py')).toBeNull()
  expect(rules.refusesOut('src/main.py')).toBeNull()
  expect(rules.refusesIn('mcp_servers.json')).toBeNull()
  expect(rules.refusesOut('data/MCP_Servers.json')).toBe('control_file')
  expect(rules.refusesOut('.git/hooks/pre-commit')).toBe('control_file')
})

test('applies the first matching rule, and copies nothing that matches no rule', () => {
  const rules = compileRules([
    { pattern: 'out/*.log', direction: 'out' },
    { pattern: 'data/**/*.csv', direction: 'in' },
    { pattern: 'data', direction: 'both' },
    { pattern: 'hooks.d', direction: 'never' },
  ])
  expect([rules.refusesIn('out/a.log'), rules.refusesOut('out/a.log')]).toEqual(['rule', null])
  expect([rules.refusesIn('data/x/y/t.csv'), rules.refusesOut('data/x/y/t.csv')]).toEqual([null, 'rule'])
  expect([rules.refusesIn('data/t.csv'), rules.refusesOut('data/t.csv')]).toEqual([null, 'rule'])
  expect([rules.refusesIn('DATA/x/t.txt'), rules.refusesOut('data/x/t.txt')]).toEqual([null, null])
  expect(rules.refusesIn('hooks.d/x')).toBe('rule')
  expect(rules.refusesIn('database/x')).toBe('no_rule')
})

test('a control file comes back if its rule says control', () => {
  const rules = compileRules([{ pattern: 'skills', direction: 'both', control: true }])
  expect(rules.refusesOut('skills/new.md')).toBeNull()
})

test.each(['', '/', '.', '/etc', '../x', 'a/../b', 'a\\b', 'a\0b', 'x'.repeat(513)])(
  'a pattern that is no path of the workspace is refused: %j',
  (pattern) => {
    expect(() => compileRules([{ pattern, direction: 'both' }])).toThrow('no pattern of a workspace')
  },
)

test('guards names at any depth, but not longer names that contain them', () => {
  expect(isNever('a/b/.azure/c')).toBe(true)
  expect(isNever('docs/.envrc-explained.md')).toBe(false)
  expect(isNever('src/tokenizer.py')).toBe(false)
})

test('never copies a name on the never-list, in any spelling and under any rules', () => {
  const name = fc.constantFrom(
    '.ssh',
    '.azure',
    '.env',
    '.env.local',
    '.aws',
    'id_rsa',
    'server.pem',
    '.npmrc',
    '.IdentityService',
  )
  const folders = fc.array(fc.constantFrom('a', 'deep', '.hidden', 'Ä', '日本'), { maxLength: 4 })
  const disguise = (text: string, choices: readonly number[]): string =>
    Array.from(text)
      .map((char, at) => {
        const choice = choices[at % choices.length] ?? 0
        const wide = /[a-z]/.test(char) ? String.fromCodePoint((char.codePointAt(0) ?? 0) + 0xfee0) : char
        return [char, char.toUpperCase(), `${char}\u200c`, `\ufeff${char}`, wide][choice] ?? char
      })
      .join('')
  const spelled = fc
    .tuple(
      name,
      fc.array(fc.nat(4), { minLength: 1, maxLength: 8 }),
      fc.constantFrom('', '.', ' ', '. .', ':stream'),
    )
    .map(([text, choices, tail]) => disguise(text, choices) + tail)
  const rules = compileRules([{ pattern: '**', direction: 'both', control: true }])
  fc.assert(
    fc.property(folders, spelled, folders, (before, secret, after) => {
      const path = [...before, secret, ...after].join('/')
      expect(rules.refusesIn(path)).toBe('never_list')
      expect(rules.refusesOut(path)).toBe('never_list')
    }),
    { seed: scheduleSeed(), numRuns: 2000 },
  )
})
