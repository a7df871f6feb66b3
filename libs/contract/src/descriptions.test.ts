import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import * as contract from './index.ts'

const schemas = Object.entries<unknown>(contract).flatMap(([name, value]): [string, z.ZodType][] =>
  value instanceof z.ZodType ? [[name, value]] : [],
)

/** Calls `visit` for a schema and every schema in it. */
const walk = (schema: z.ZodType, visit: (inner: z.core.$ZodType) => void): void => {
  for (const io of ['input', 'output'] as const)
    z.toJSONSchema(schema, { io, unrepresentable: 'any', override: ({ zodSchema }) => visit(zodSchema) })
}

describe('an example of a field', () => {
  it('is one that the field’s own schema accepts', () => {
    const found: string[] = []
    const refused: string[] = []
    for (const [name, schema] of schemas)
      walk(schema, (inner) => {
        const { example } = z.globalRegistry.get(inner) ?? {}
        if (example === undefined) return
        found.push(name)
        const { error } = z.safeParse(inner, example)
        if (error !== undefined) refused.push(`${name}: ${JSON.stringify(example)}: ${error.message}`)
      })
    expect(found.length).toBeGreaterThan(500)
    expect(found).toEqual(
      expect.arrayContaining(['executionRequestSchema', 'resultSchema', 'routineInputSchema']),
    )
    expect(refused).toEqual([])
  })
})
