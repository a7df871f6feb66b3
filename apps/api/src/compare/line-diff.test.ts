import { DIFF_BOUNDS } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { diffTexts } from './line-diff.ts'

const textOf = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('')
const shown = (first: string, second: string): string[] =>
  diffTexts(first, second).lines.map(
    ({ kind, text }) => `${{ same: ' ', removed: '-', added: '+', skipped: '@' }[kind]}${text}`,
  )

/** Length of the longest common subsequence, by the usual dynamic programming. */
function common(a: readonly string[], b: readonly string[]): number {
  let row = Array.from({ length: b.length + 1 }, () => 0)
  for (const left of a) {
    const next = [0]
    for (const [j, right] of b.entries())
      next.push(left === right ? (row[j] ?? 0) + 1 : Math.max(row[j + 1] ?? 0, next[j] ?? 0))
    row = next
  }
  return row.at(-1) ?? 0
}

describe('the diff of two outputs', () => {
  it('shows the changes with three lines around them', () => {
    const lines = Array.from({ length: 20 }, (_, i) => `line ${i}`)
    const other = lines.with(10, 'changed').toSpliced(15, 1)
    expect(shown(textOf(lines), textOf(other))).toEqual([
      '@7 lines',
      ' line 7',
      ' line 8',
      ' line 9',
      '-line 10',
      '+changed',
      ' line 11',
      ' line 12',
      ' line 13',
      ' line 14',
      '-line 15',
      ' line 16',
      ' line 17',
      ' line 18',
      '@1 lines',
    ])
    expect(diffTexts(textOf(lines), textOf(other))).toMatchObject({ same: false, added: 1, removed: 2 })
  })

  it('handles empty texts and a missing last line feed', () => {
    expect(diffTexts('', '')).toEqual({ same: true, added: 0, removed: 0, exact: true, lines: [] })
    expect(shown('', 'a\nb')).toEqual(['+a', '+b (no line feed at the end)'])
    expect(shown('a\n', 'a')).toEqual(['-a', '+a (no line feed at the end)'])
  })

  it('finds the fewest changes for any two texts', () => {
    // A fixed linear congruential generator, so that a failure can be repeated.
    let seed = 7
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
      return Math.floor((seed / 2_147_483_648) * below)
    }
    for (let round = 0; round < 400; round += 1) {
      const [a, b] = [0, 1].map(() => Array.from({ length: random(12) }, () => 'abc'[random(3)] ?? ''))
      const { added, removed, exact, lines } = diffTexts(textOf(a ?? []), textOf(b ?? []))
      const equal = common(a ?? [], b ?? [])
      expect([removed, added, exact]).toEqual([(a ?? []).length - equal, (b ?? []).length - equal, true])
      const sides = (kinds: string[]) =>
        lines.filter(({ kind }) => kinds.includes(kind)).map(({ text }) => text)
      if (lines.length > 0 && lines.every(({ kind }) => kind !== 'skipped'))
        expect([sides(['same', 'removed']), sides(['same', 'added'])]).toEqual([a, b])
    }
  })

  it('stays within its bounds for texts that have nothing in common', { timeout: 30_000 }, () => {
    const [a, b] = ['a', 'b'].map((side) =>
      textOf(Array.from({ length: 6000 }, (_, i) => `${side} ${i} ${'x'.repeat(600)}`)),
    )
    const found = diffTexts(a ?? '', b ?? '')
    expect(found).toMatchObject({ exact: false, removed: 6000, added: 6000 })
    expect(found.lines.length).toBeLessThanOrEqual(DIFF_BOUNDS.lines + 1)
    expect(found.lines.some(({ kind }) => kind === 'added')).toBe(true)
    expect(Math.max(...found.lines.map(({ text }) => text.length))).toBe(DIFF_BOUNDS.lineLength)
  })

  it('shows context after a long part that is equal', () => {
    const same = Array.from({ length: 500 }, (_, i) => String(i))
    expect(shown(textOf(same), textOf([...same, 'new']))).toEqual([
      '@497 lines',
      ' 497',
      ' 498',
      ' 499',
      '+new',
    ])
  })
})

it('compares a text of millions of lines in a bounded number of them', () => {
  const lines = '\n'.repeat(2_000_000)
  const found = diffTexts(lines, `${lines}x`)
  expect([found.removed, found.added, found.exact]).toEqual([1, 1, true])
})
