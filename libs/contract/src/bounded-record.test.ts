import { describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import {
  boundedRecord,
  CofferdamError,
  executionRequestSchema,
  parse,
  routineInputSchema,
  tenantCapsPatchSchema,
  tenantCapsSchema,
  tenantPolicyPatchSchema,
  tenantPolicySchema,
} from './index.ts'

/** More entries than any record may have, each with a bad name and a bad value. */
const MANY = Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`bad name ${n}`, null]))

const issuesOf = (schema: z.ZodType, input: unknown) => schema.safeParse(input).error?.issues ?? []

describe('a bounded record', () => {
  it('does not look at the entries of a record that has too many', () => {
    const look = vi.fn(() => true)
    const schema = boundedRecord(z.string().refine(look), z.unknown().refine(look), 2, 'things')
    expect(issuesOf(schema, { a: 1, b: 2, c: 3 }).map(({ message }) => message)).toEqual([
      'expected at most 2 things',
    ])
    expect(look).not.toHaveBeenCalled()
    expect(schema.parse({ a: 1, b: 2 })).toEqual({ a: 1, b: 2 })
    expect(look).toHaveBeenCalledTimes(4)
  })

  it('refuses what a record refuses, with the same words', () => {
    const [key, value] = [z.string(), z.number()]
    for (const input of [[], [1, 2, 3], 'text', 3, null, undefined, new Date(0), { a: 'b' }])
      expect(issuesOf(boundedRecord(key, value, 2, 'things'), input)).toEqual(
        issuesOf(z.record(key, value), input),
      )
  })

  it('keeps its bound in copies of the schema', () => {
    const bounded = boundedRecord(z.string(), z.number(), 2, 'things')
    const copies = [bounded.refine(() => true), bounded.meta({ title: 'x' }), bounded.optional()]
    for (const copy of copies) expect(issuesOf(copy, { a: 1, b: 2, c: 3 })).toHaveLength(1)
  })

  it.each(['input', 'output'] as const)('has the JSON schema of a record, as %s', (io) => {
    const bounded = boundedRecord(z.string(), z.number(), 2, 'things')
    const record = z.record(z.string(), z.number())
    const schemaOf = (one: z.ZodType) =>
      z.toJSONSchema(z.strictObject({ needed: one, maybe: one.optional(), some: one.default({}) }), { io })
    expect(schemaOf(bounded)).toEqual(schemaOf(record))
  })
})

describe('a body with thousands of keys', () => {
  const request = {
    tenant_id: 'acme',
    agent_id: 'analyst',
    program: { type: 'script', language: 'python', source: '1' },
    env: MANY,
  }

  it.each<[string, z.ZodType, object, string]>([
    ['env of a request', executionRequestSchema, request, 'env'],
    ['env of a routine', routineInputSchema, { name: 'r', request }, 'request.env'],
    ['bound agents of a policy', tenantPolicySchema, { templates: templates() }, 'templates.agents'],
    ['bound agents of a patch', tenantPolicyPatchSchema, { templates: templates() }, 'templates.agents'],
    ['agents of caps', tenantCapsSchema, { agents: MANY }, 'agents'],
    ['agents of a patch of caps', tenantCapsPatchSchema, { agents: MANY }, 'agents'],
  ])('has one problem in the %s', (_name, schema, body, field) => {
    const issues = issuesOf(schema, body).filter(({ path }) => path.join('.').startsWith(field))
    expect(issues.map(({ path }) => path.join('.'))).toEqual([field])
    expect(issues[0]?.message).toMatch(/^expected at most \d+ (variables|agents)$/)
  })

  it('is refused with the bound and the number of keys', () => {
    const refusal = () => parse(executionRequestSchema, request)
    expect(refusal).toThrow(CofferdamError)
    expect(refusal).toThrow('env: expected at most 128 variables, got an object with 20000 keys')
  })

  function templates() {
    return { required: false, agents: MANY }
  }
})

it('accepts as many variables as the bound', () => {
  const env = Object.fromEntries(Array.from({ length: 128 }, (_, n) => [`V${n}`, 'x']))
  const program = { type: 'script', language: 'python', source: '1' }
  const body = { tenant_id: 'acme', agent_id: 'analyst', program }
  expect(parse(executionRequestSchema, { ...body, env }).env).toEqual(env)
  expect(issuesOf(executionRequestSchema, { ...body, env: { ...env, MORE: 'x' } })).toHaveLength(1)
})
