import { expect, it } from 'vitest'
import { arrayLiteral } from './array-literal.ts'

it.each([
  [[], '{}'],
  [['a', null, 'NULL', ''], '{"a",NULL,"NULL",""}'],
  [['say "no"', 'C:\\dir', '{a,b}'], String.raw`{"say \"no\"","C:\\dir","{a,b}"}`],
  [[3, -0.5, 1e-9, true, false], '{3,-0.5,1e-9,true,false}'],
])('writes %j as Postgres reads it', (values, literal) => {
  expect(arrayLiteral(values)).toBe(literal)
})
