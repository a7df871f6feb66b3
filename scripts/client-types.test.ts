import { describe, expect, it } from 'vitest'
import { clientTypes, typeOf, type Schema } from './client-types.ts'

describe('the types of a schema', () => {
  it.each<[string, Schema, string]>([
    ['a text', { type: 'string', pattern: '^[a-z]+$' }, 'string'],
    ['an ID', { type: 'string', pattern: '^exe_[0-9a-f]{12}7$' }, '`exe_${string}`'],
    ['a choice of words', { type: 'string', enum: ['a', 'b'] }, '"a" | "b"'],
    ['a number or null', { anyOf: [{ type: 'integer' }, { type: 'null' }] }, 'number | null'],
    ['several types', { type: ['string', 'null'] }, 'string | null'],
    ['a list', { type: 'array', items: { $ref: '#/components/schemas/Artifact' } }, 'Array<Artifact>'],
    ['texts by name', { type: 'object', additionalProperties: { type: 'string' } }, 'Record<string, string>'],
    ['anything', {}, 'unknown'],
  ])('%s', (_name, schema, type) => {
    expect(typeOf(schema)).toBe(type)
  })

  it('marks what may be absent, and documents fields with their defaults', () => {
    const schema: Schema = {
      type: 'object',
      properties: {
        'limit-ms': { type: 'integer', description: 'How long.', default: 5 },
        end: { description: 'A */ inside.', type: 'boolean' },
      },
      required: ['end'],
      additionalProperties: false,
    }
    expect(typeOf(schema)).toBe(
      '{/** How long. Default: `5`. */\n"limit-ms"?: number | undefined\n/** A *\\/ inside. */\nend: boolean}',
    )
  })

  it('breaks long descriptions into lines of a comment', () => {
    const words = 'word '.repeat(40).trim()
    const lines = typeOf({
      type: 'object',
      properties: { a: { type: 'string', description: words } },
    }).split('\n')
    expect(lines.slice(0, 2)).toEqual(['{/**', ` * ${'word '.repeat(17).trim()}`])
    // Fields within fields are indented by up to 16 columns.
    expect(lines.every((line) => line.length + 16 <= 110)).toBe(true)
  })
})

it('names query, body and answer of each operation', () => {
  const answer = { content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } }
  const text = clientTypes({
    paths: {
      '/v1/things': {
        post: {
          operationId: 'makeThing',
          parameters: [
            { name: 'wait', in: 'query', schema: { type: 'string' } },
            { name: 'limit', in: 'query', schema: { type: 'string', pattern: '^[1-9]\\d{0,2}$' } },
            { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
          ],
          requestBody: { content: { 'application/octet-stream': { schema: {} } } },
          responses: { '201': answer },
        },
      },
    },
    components: { schemas: { Error: { type: 'object', properties: { code: { type: 'string' } } } } },
  })
  expect(text).toContain('export type ErrorBody = {code?: string | undefined\n[more: string]: unknown}')
  expect(text).toContain('makeThing: { query: {wait?: string | undefined\nlimit?: number | undefined}')
  expect(text).toContain('body: Uint8Array | undefined\n result: ErrorBody }')
})
