import { expect, it } from 'vitest'
import { MOST_ROWS, tableOf } from './table-text.ts'

it.each([
  [
    'a,b\n1,2\n',
    ',',
    [
      ['a', 'b'],
      ['1', '2'],
    ],
  ],
  [
    'a,b\r\n1,',
    ',',
    [
      ['a', 'b'],
      ['1', ''],
    ],
  ],
  ['"x, ""y""\nz",2', ',', [['x, "y"\nz', '2']]],
  ['a\tb,c', '\t', [['a', 'b,c']]],
  ['"never closed,1\n2', ',', [['never closed,1\n2']]],
  ['', ',', []],
] as const)('reads %j', (text, separator, rows) => {
  expect(tableOf(text, separator)).toEqual(rows)
})

it('bounds rows, columns and cells', () => {
  expect(tableOf('x\n'.repeat(10_000), ',')).toHaveLength(MOST_ROWS)
  expect(tableOf('x,'.repeat(10_000), ',')[0]).toHaveLength(50)
  expect(tableOf('x'.repeat(10_000), ',')[0]?.[0]).toHaveLength(200)
})
