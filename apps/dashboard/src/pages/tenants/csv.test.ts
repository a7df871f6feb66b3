import { expect, it } from 'vitest'
import { csvOf } from './csv.ts'

it('quotes what would break a row, and defuses formulas but no numbers', () => {
  expect(
    csvOf(
      ['agent', 'cost'],
      [
        ['a,"b"\n', -3],
        ['=HYPERLINK("x")', 1.5],
        ['', 0],
      ],
    ),
  ).toBe('agent,cost\r\n"a,""b""\n",-3\r\n"\'=HYPERLINK(""x"")",1.5\r\n,0\r\n')
})
