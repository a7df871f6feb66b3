import { expect, it } from 'vitest'
import { z } from 'zod'
import { parse, parseOfAnyRelease } from './parse.ts'

const schema = z.strictObject({ name: z.string(), inner: z.strictObject({ n: z.int() }).optional() })

it('parsing accepts fields that a newer release added, at any depth', () => {
  const newer = { name: 'a', added: [1], inner: { n: 1, more: {} } }
  expect(parseOfAnyRelease(schema, newer)).toEqual(newer)
})

it('parsing refuses values that no release writes', () => {
  expect(() => parseOfAnyRelease(schema, { name: 1, added: true })).toThrow(/name/)
  expect(() => parseOfAnyRelease(schema, { added: true })).toThrow(/name/)
  expect(() => parseOfAnyRelease(schema, null)).toThrow()
})

it('of a wrong name in a record, says what is wrong with the name, and does not repeat its value', () => {
  const env = z.strictObject({ env: z.record(z.string().regex(/^[a-z]+$/, 'expected letters'), z.string()) })
  expect(() => parse(env, { env: { 'a b': 'secret' } })).toThrow(
    expect.objectContaining({
      message: 'request is not valid: env.a b: expected letters, got "a b"',
      details: { problems: [{ field: 'env.a b', message: 'expected letters, got "a b"' }] },
    }),
  )
})
