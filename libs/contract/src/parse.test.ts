import { expect, it } from 'vitest'
import { z } from 'zod'
import { parseOfAnyRelease } from './parse.ts'

const schema = z.strictObject({ name: z.string(), inner: z.strictObject({ n: z.int() }).optional() })

it('lets pass what a newer release added, at any depth', () => {
  const newer = { name: 'a', added: [1], inner: { n: 1, more: {} } }
  expect(parseOfAnyRelease(schema, newer)).toEqual(newer)
})

it('refuses what no release would have written', () => {
  expect(() => parseOfAnyRelease(schema, { name: 1, added: true })).toThrow(/name/)
  expect(() => parseOfAnyRelease(schema, { added: true })).toThrow(/name/)
  expect(() => parseOfAnyRelease(schema, null)).toThrow()
})
