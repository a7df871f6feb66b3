import { expect, it } from 'vitest'
import { arrayLiteral } from './array-literal.ts'

/** Escapes only quotes and backslashes. */
const LITERAL_OF_TEXTS =
  String.raw`{"{\"a\":\"\\n\"}",` + '"line\n\\"two\\"","\\"\u{1f600}\\"","\\"\0\u007f\u2028\\""}'

it.each([
  [[], '{}'],
  [['a', null, 'NULL', ''], '{"a",NULL,"NULL",""}'],
  [['say "no"', 'C:\\dir', '{a,b}'], String.raw`{"say \"no\"","C:\\dir","{a,b}"}`],
  [['{"a":"\\n"}', 'line\n"two"', '"\u{1f600}"', '"\0\u007f\u2028"'], LITERAL_OF_TEXTS],
  [[3, -0.5, 1e-9, true, false], '{3,-0.5,1e-9,true,false}'],
])('writes %j as Postgres reads it', (values, literal) => {
  expect(arrayLiteral(values)).toBe(literal)
})
