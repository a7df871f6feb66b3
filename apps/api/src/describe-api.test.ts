import { executionRequestSchema, resultSchema } from '@cofferdam/contract'
import { beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { describeApi } from './describe-api.ts'
import type { Content, JsonSchema, OpenApiDocument, Operation } from './openapi-document.ts'

let document: OpenApiDocument
beforeAll(async () => {
  document = await describeApi()
})

interface Field {
  where: string
  schema: JsonSchema
  isRequired: boolean
}

const resolved = (schema: JsonSchema): JsonSchema =>
  schema.$ref === undefined ? schema : document.components.schemas[schema.$ref.split('/').at(-1) ?? '']!

/** The alternatives that a schema allows, without null. */
const choices = (schema: JsonSchema): JsonSchema[] =>
  (schema.anyOf ?? schema.oneOf)?.flatMap(choices).filter((one) => one.type !== 'null') ?? [resolved(schema)]

/** Every property below a schema. Does not follow references, because components are visited separately. */
function fieldsBelow(where: string, schema: JsonSchema): Field[] {
  const { properties = {}, required = [], anyOf = [], oneOf = [], items, additionalProperties } = schema
  const inner = typeof additionalProperties === 'object' ? additionalProperties : []
  return [
    ...Object.entries(properties).flatMap(([name, property]) => [
      { where: `${where}.${name}`, schema: property, isRequired: required.includes(name) },
      ...fieldsBelow(`${where}.${name}`, property),
    ]),
    ...[anyOf, oneOf, items ?? [], inner].flat().flatMap((part) => fieldsBelow(where, part)),
  ]
}

const inContent = (where: string, { content = {} }: Content): Field[] =>
  Object.values(content).flatMap(({ schema }) => fieldsBelow(where, schema))

const operations = () => Object.values(document.paths).flatMap((item) => Object.entries(item))

/** A parameter has its description and example beside its schema. This copies them into the schema. */
const parametersOf = ({ operationId, parameters = [] }: Operation): Field[] =>
  parameters.map(({ name, required = false, description, example, schema }) => ({
    where: `${operationId} ${name}`,
    schema: {
      ...schema,
      ...(description === undefined ? {} : { description }),
      ...(example === undefined ? {} : { examples: [example] }),
    },
    isRequired: required,
  }))

/** Every property of a request or result, and every parameter. */
const allFields = (): Field[] => [
  ...Object.entries(document.components.schemas).flatMap(([name, schema]) => fieldsBelow(name, schema)),
  ...operations().flatMap(([, operation]) => [
    ...parametersOf(operation),
    ...[operation.requestBody ?? {}, ...Object.values(operation.responses)].flatMap((part) =>
      inContent(operation.operationId, part),
    ),
  ]),
]

/**
 * Optional fields that callers may write. Bodies of updates are left out: there, an absent field keeps its
 * value.
 */
const optionalFields = (): Field[] =>
  [
    ...['ExecutionRequest', 'TenantPolicyInput', 'TenantCapsInput'].flatMap((name) =>
      fieldsBelow(name, document.components.schemas[name]!),
    ),
    ...operations().flatMap(([method, operation]) => [
      ...parametersOf(operation),
      ...(method === 'patch' || CHANGES.includes(operation.operationId)
        ? []
        : inContent(operation.operationId, operation.requestBody ?? {})),
    ]),
  ].filter(({ isRequired }) => !isRequired)

const CHANGES = ['setSandboxConfig']

/** Values that need no example: words of an enum, booleans, and what has described fields of its own. */
const explainsItself = (schema: JsonSchema): boolean =>
  choices(schema).every(
    (one) =>
      one.enum !== undefined ||
      one.const !== undefined ||
      one.type === 'boolean' ||
      one.properties !== undefined ||
      (one.type === 'array' && one.items !== undefined && explainsItself(one.items)),
  )

describe('every field of every request and result', () => {
  it('is found', () => {
    const fields = allFields().map(({ where }) => where)
    expect(fields.length).toBeGreaterThan(900)
    expect(fields).toEqual(
      expect.arrayContaining(Object.keys(resultSchema.shape).map((name) => `ExecutionResult.${name}`)),
    )
    expect(fields).toEqual(
      expect.arrayContaining([
        'ExecutionRequest.session.idle_ms',
        'ExecutionRequest.program.source',
        'ExecutionResult.tests.failures.message',
        'createRoutine.schedule.cron',
        'listExecutions cursor',
        'streamEvents last-event-id',
      ]),
    )
  })

  it('has a description that is a sentence', () => {
    const without = allFields().filter(({ schema }) => !/^\S.*[.)]$/s.test(schema.description ?? ''))
    expect(without.map(({ where }) => where)).toEqual([])
  })

  it('has an example, unless its values are words or have fields of their own', () => {
    const without = allFields().filter(
      ({ schema }) =>
        schema.examples === undefined &&
        choices(schema).some((one) => one.examples === undefined) &&
        !explainsItself(schema),
    )
    expect(without.map(({ where }) => where)).toEqual([])
  })

  it('has an example that it allows', () => {
    const definitions = JSON.stringify(document.components.schemas)
    const wrong = allFields().flatMap(({ where, schema }) =>
      (schema.examples ?? []).flatMap((example) => {
        const text = JSON.stringify(schema)
        const alone = text.includes('"$ref"') ? `{"$defs":${definitions},${text.slice(1)}` : text
        const parser = z.fromJSONSchema(JSON.parse(alone.replaceAll('#/components/schemas/', '#/$defs/')))
        const { error } = parser.safeParse(example)
        return error === undefined ? [] : [`${where}: ${error.message}`]
      }),
    )
    expect(wrong).toEqual([])
  })

  it('says its unit', () => {
    const units: [RegExp, RegExp][] = [
      [/_ms$/, /milliseconds/i],
      [/_mib$/, /MiB/],
      [/(^|_)bytes$/, /bytes|MiB/i],
    ]
    const without = allFields().filter(({ where, schema }) =>
      units.some(
        ([name, unit]) =>
          name.test(where) &&
          choices(schema).some(({ type }) => type === 'integer' || type === 'number') &&
          !unit.test(schema.description ?? ''),
      ),
    )
    expect(without.map(({ where }) => where)).toEqual([])
  })

  it('says what applies without it, if a caller may leave it out', () => {
    const silent = optionalFields().filter(
      ({ schema }) =>
        schema.default === undefined && !/default|^Only |give either/i.test(schema.description ?? ''),
    )
    expect(silent.map(({ where }) => where)).toEqual([])
  })
})

describe('the smallest request', () => {
  it('names a tenant, an agent and a program', () => {
    const { required, examples } = document.components.schemas['ExecutionRequest']!
    expect(required).toEqual(['tenant_id', 'agent_id', 'program'])
    expect(Object.keys(executionRequestSchema.parse(examples?.[0]))).toContain('limits')
  })
})

describe('an operation', () => {
  it('says which key it needs', () => {
    const said = Object.fromEntries(operations().map(([, one]) => [one.operationId, one.description]))
    expect(said['healthz']).toBe('Needs no key.')
    expect(said['createKey']).toBe('Needs an admin key.')
    expect(said['getExecution']).toBe('Needs a key of the tenant, or an admin key.')
  })

  it('requires a body only if it cannot do without', () => {
    const required = Object.fromEntries(
      operations().map(([, { operationId, requestBody }]) => [operationId, requestBody?.required]),
    )
    expect(required).toMatchObject({
      createExecution: true,
      cancelExecution: false,
      testSandbox: false,
      putSessionFile: false,
      getExecution: undefined,
    })
  })
})
