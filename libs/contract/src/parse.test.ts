import { expect, it } from 'vitest'
import { z } from 'zod'
import { parseOfAnyRelease } from './parse.ts'

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
