/** The tool's validation, its JSON Schema and the API's own validation agree. */
import { executionRequestSchema } from '@cofferdam/contract'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { inputSchema, issuesText, parseInput } from './code-input.ts'
import { strictSchema } from './json-schema.ts'
import { LANGUAGES } from './languages.ts'

const rules = { languages: LANGUAGES, namesSessions: true }
const zodOf = (schema: object) => z.fromJSONSchema(schema as never)

const path = fc.oneof(
  fc.constantFrom('a.txt', 'in/b.txt', '../a', '/etc/passwd', '.', 'a//b', 'a\0b', '', 'ä'.repeat(200)),
  fc.string({ maxLength: 20 }),
)
const file = fc.oneof(
  fc.record({ path, content: fc.string({ maxLength: 20 }) }),
  fc.record({ path, content: fc.constantFrom(null, 7) }),
)
/** Generates valid values most of the time, so that many of the inputs are accepted. */
const mostly = <T>(good: fc.Arbitrary<T>, ...bad: unknown[]): fc.Arbitrary<unknown> =>
  fc.oneof({ arbitrary: good, weight: 4 }, { arbitrary: fc.constantFrom(...bad), weight: 1 })
const inputs = fc.oneof(
  {
    arbitrary: fc.record(
      {
        language: mostly(fc.constantFrom(...LANGUAGES), 'cobol', null, 7),
        source: mostly(fc.string({ maxLength: 50 }), null, 7),
        session: mostly(fc.constantFrom('data', null), 'run:x', '', 'x'.repeat(41)),
        files: mostly(fc.array(file, { maxLength: 3 }), null, 'x'),
        strange: fc.constantFrom(null, null, null, 1),
      },
      { requiredKeys: ['language', 'source'] },
    ),
    weight: 4,
  },
  { arbitrary: fc.jsonValue(), weight: 1 },
)

describe('what the validation accepts', () => {
  it('is accepted by its JSON Schema, by the strict one, and by the API', () => {
    const schema = zodOf(inputSchema(rules))
    const strict = zodOf(strictSchema(inputSchema(rules)))
    let accepted = 0
    fc.assert(
      fc.property(inputs, (input) => {
        const parsed = parseInput(input, rules)
        if ('issues' in parsed) {
          expect(issuesText(parsed.issues)).not.toBe('')
          return
        }
        accepted += 1
        const { value } = parsed
        expect(schema.safeParse(value).error).toBeUndefined()
        expect(strict.safeParse({ session: null, files: null, ...value }).error).toBeUndefined()
        const { session, files = [], ...program } = value
        const request = {
          tenant_id: 't',
          agent_id: 'a',
          program: { type: 'script', ...program },
          files,
          ...(session === undefined ? {} : { session: { key: session } }),
        }
        expect(executionRequestSchema.safeParse(request).error).toBeUndefined()
      }),
      { numRuns: 3000 },
    )
    expect(accepted).toBeGreaterThan(50)
  })
})

describe('what it refuses', () => {
  it.each([
    [null, 'input: expected an object'],
    [{}, `language: expected one of ${LANGUAGES.join(', ')}; source: expected the text of a program`],
    [{ language: 'bash', source: 'x'.repeat(1024 * 1024 + 1) }, 'source: expected at most 1 MiB'],
    [{ language: 'bash', source: 'ä'.repeat(524_289) }, 'source: expected at most 1 MiB'],
    [{ language: 'bash', source: '', timeout: 5 }, 'timeout: expected nothing'],
    [
      { language: 'bash', source: '', files: [{ path: '../x', content: '' }] },
      'files.0.path: expected a relative path without "..", ".", empty parts or NUL',
    ],
    [
      { language: 'bash', source: '', files: [1, 2].map(() => ({ path: 'x', content: '' })) },
      'files.1.path: expected each path once',
    ],
    [
      { language: 'bash', source: '', files: Array(33).fill(0) },
      'files: expected a list of at most 32 files',
    ],
    [
      { language: 'bash', source: '', files: [{ path: 'x', content: 'y'.repeat(4_194_305) }] },
      'files: expected at most 4 MiB in all',
    ],
  ])('%#: is named with its place', (input, text) => {
    const parsed = parseInput(input, rules)
    expect('issues' in parsed && issuesText(parsed.issues)).toBe(text)
  })

  it('has no session where the model may name none', () => {
    const own = { languages: ['python'] as const, namesSessions: false }
    expect(Object.keys(inputSchema(own).properties)).toEqual(['language', 'source', 'files'])
    const parsed = parseInput({ language: 'python', source: '', session: 'x' }, own)
    expect('issues' in parsed && issuesText(parsed.issues)).toBe('session: expected nothing')
  })
})
