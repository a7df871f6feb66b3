/** Which paths are copied in which direction, and that no spelling bypasses the never-list. */
import { scheduleSeed } from '@cofferdam/embedded/testing'
import { BOUNDS } from '@cofferdam/contract'
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

test.each([
  ['"**" in a row', `${'**/'.repeat(169)}zz`, '8 parts "**"'],
  ['"**" between names', `${'a/**/'.repeat(BOUNDS.patternGlobstars + 1)}z`, '8 parts "**"'],
  ['parts', Array.from({ length: BOUNDS.patternParts + 1 }, () => 'a').join('/'), '40 parts'],
  ['"*"', '*a'.repeat(BOUNDS.patternStars + 1), '64 characters "*"'],
  // Folding makes ordinary asterisks of these.
  ['"*" in another script', '\uff0aa'.repeat(BOUNDS.patternStars + 1), '64 characters "*"'],
])('a pattern that is too expensive to match is refused because of its %s', (_what, pattern, bound) => {
  const compile = () => compileRules([{ pattern, direction: 'both' }])
  expect(compile).toThrow(`expected at most ${bound}`)
})

test('accepts the largest pattern, and several "**" in a row match as one does', () => {
  const names = Array.from({ length: BOUNDS.patternParts - BOUNDS.patternGlobstars }, (_, at) => `n${at}`)
  const largest = [...names, ...Array.from({ length: BOUNDS.patternGlobstars }, () => '**')].join('/')
  expect(compileRules([{ pattern: largest, direction: 'both' }]).refusesIn(names.join('/'))).toBeNull()
  const row = compileRules([{ pattern: 'a/**/**/**/*.txt', direction: 'both' }])
  const verdicts = ['a/x.txt', 'a/b/c/x.txt', 'a/x', 'b/x.txt'].map((path) => row.refusesIn(path))
  expect(verdicts).toEqual([null, null, 'no_rule', 'no_rule'])
})

test('matches as the definition of the wildcards says', () => {
  /**
   * The definition as code: `*` matches any text within a name, `**` any folders, and a folder everything in
   * it.
   */
  const matches = ([part, ...rest]: string[], names: string[]): boolean => {
    if (part === undefined) return true
    const [name, ...others] = names
    if (part === '**') return matches(rest, names) || (name !== undefined && matches([part, ...rest], others))
    const expression = new RegExp(`^${part.replaceAll(/\*+/g, '.*')}$`)
    return name !== undefined && expression.test(name) && matches(rest, others)
  }
  const part = fc.constantFrom('**', '*', 'a', 'b', 'ab', 'a*', '*b', 'a*b', '*ab*', 'a*a*b', 'a**b')
  const name = fc.stringMatching(/^[ab]{1,6}$/)
  const parts = fc.array(part, { minLength: 1, maxLength: 7 })
  fc.assert(
    fc.property(parts, fc.array(name, { minLength: 1, maxLength: 7 }), (pattern, names) => {
      const rules = compileRules([{ pattern: pattern.join('/'), direction: 'both' }])
      expect(rules.refusesIn(names.join('/'))).toBe(matches(pattern, names) ? null : 'no_rule')
    }),
    { seed: scheduleSeed(), numRuns: 5000 },
  )
})

test('a path in more than 32 folders is not copied in either direction', () => {
  const rules = compileRules()
  const inFolders = (count: number) => `${'d/'.repeat(count)}file`
  expect([rules.refusesIn(inFolders(32)), rules.refusesOut(inFolders(32))]).toEqual([null, null])
  expect([rules.refusesIn(inFolders(33)), rules.refusesOut(inFolders(33))]).toEqual(['too_deep', 'too_deep'])
})

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
