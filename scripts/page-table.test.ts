import { expect, it } from 'vitest'
import { fieldRows, kindRows } from './page-table.ts'

const kinds = ['script', 'command'].map((name) => ({
  type: 'object',
  properties: {
    type: { type: 'string', const: name, ...(name === 'script' ? { description: 'Run source code.' } : {}) },
    [`${name}_text`]: { type: 'string' },
  },
  required: ['type'],
}))

it('lists the field that names the kind once, and the other fields with their kind', () => {
  const rows = fieldRows({ type: 'object', properties: { program: { oneOf: kinds } }, required: ['program'] })
  expect(rows.map(({ key, isRequired }) => [key, isRequired])).toEqual([
    ['program', true],
    ['program.type', true],
    ['program.script_text (script)', false],
    ['program.command_text (command)', false],
  ])
  expect(rows[1]?.schema).toEqual({
    enum: ['script', 'command'],
    description: 'The kind. `script`: Run source code.',
  })
})

it('lists no kind for alternatives without one', () => {
  expect(kindRows([{ type: 'object', properties: { used: { type: 'integer' } } }, { type: 'null' }])).toEqual(
    [],
  )
})
