/** What this package needs of JSON Schema, and of the two standards by which SDKs accept foreign schemas. */

/**
 * A JSON Schema. Draft 7 and 2020-12 agree in everything that is used here. It is no interface, because SDKs
 * assign it to an index signature.
 */
export type JsonSchema = {
  type?: string | string[]
  description?: string
  properties?: Record<string, JsonSchema>
  required?: string[]
  additionalProperties?: boolean
  items?: JsonSchema
  enum?: unknown[]
  minLength?: number
  maxLength?: number
  pattern?: string
  maxItems?: number
}

/** A JSON Schema of an object, as every SDK wants it at the top. */
export type ObjectSchema = JsonSchema & {
  type: 'object'
  properties: Record<string, JsonSchema>
  required: string[]
  additionalProperties: false
}

export interface Issue {
  message: string
  path?: readonly PropertyKey[]
}

/** Standard Schema 1 with Standard JSON Schema 1 (https://standardschema.dev). */
export interface StandardSchema<Value> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => { value: Value } | { issues: readonly Issue[] }
    readonly jsonSchema: {
      readonly input: (options: { target: string }) => Record<string, unknown>
      readonly output: (options: { target: string }) => Record<string, unknown>
    }
    readonly types?: { readonly input: Value; readonly output: Value } | undefined
  }
}

/** The schema as one object of both standards. */
export function standardSchema<Value>(
  schema: ObjectSchema,
  validate: StandardSchema<Value>['~standard']['validate'],
): StandardSchema<Value> {
  const asJson = (): Record<string, unknown> => structuredClone(schema) as unknown as Record<string, unknown>
  const jsonSchema = { input: asJson, output: asJson }
  return { '~standard': { version: 1, vendor: 'cofferdam', validate, jsonSchema } }
}

/**
 * The schema in the form that OpenAI calls strict: every key is required, and an optional one accepts null.
 * Only our validation checks bounds, because the strict form does not support all of them.
 */
export function strictSchema(schema: ObjectSchema): ObjectSchema {
  return strictOf(schema) as ObjectSchema
}

function strictOf({ properties, required = [], items, ...rest }: JsonSchema): JsonSchema {
  const { maxItems: _items, minLength: _min, maxLength: _max, pattern: _pattern, ...kept } = rest
  if (items !== undefined) return { ...kept, items: strictOf(items) }
  if (properties === undefined) return kept
  const strict = Object.entries(properties).map(([key, value]) => {
    const inner = strictOf(value)
    return [key, required.includes(key) ? inner : { ...inner, type: [inner.type ?? 'string', 'null'].flat() }]
  })
  return { ...kept, properties: Object.fromEntries(strict), required: Object.keys(properties) }
}
