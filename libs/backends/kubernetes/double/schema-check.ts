/** Applies structural schemas like an API server: sets defaults, drops unknown fields, validates. */

export type Schema =
  | {
      type: 'string'
      enum?: readonly string[]
      format?: 'date-time'
      default?: string
    }
  | { type: 'integer'; minimum?: number; default?: number }
  | { type: 'boolean' }
  | { type: 'array'; items: Schema }
  | {
      type: 'object'
      properties?: Record<string, Schema>
      required?: readonly string[]
      /** Schema of values under keys that the schema does not name. */
      additionalProperties?: Schema
      /** Keeps fields that the schema does not name. Set where our schema is only a part of the real one. */
      preserves?: true
    }

/** Error in a field, as in a Status. */
export interface Cause {
  reason:
    | 'FieldValueRequired'
    | 'FieldValueInvalid'
    | 'FieldValueTypeInvalid'
    | 'FieldValueNotSupported'
    | 'FieldValueForbidden'
    | 'FieldValueTooLong'
  field: string
  message: string
}

export interface Checked {
  value: unknown
  causes: Cause[]
  /** Fields that were removed. */
  unknown: string[]
}

/** Checks a value at `path` of its object. */
export function check(schema: Schema, value: unknown, path: string): Checked {
  const causes: Cause[] = []
  const unknown: string[] = []

  const fail = (reason: Cause['reason'], field: string, message: string): void =>
    void causes.push({ reason, field, message })

  function visit(at: Schema, given: unknown, field: string): unknown {
    const is = typeOf(given)
    if (is !== at.type) {
      const text = `Invalid value: ${JSON.stringify(is)}: ${field} in body must be of type ${at.type}: ${JSON.stringify(is)}`
      fail('FieldValueTypeInvalid', field, text)
      return given
    }
    if (at.type === 'array')
      return (given as unknown[]).map((item, n) => visit(at.items, item, `${field}[${n}]`))
    if (at.type === 'object') return members(at, given as Record<string, unknown>, field)
    const wrong = wrongScalar(at, given)
    if (wrong !== null) fail(...wrong(field))
    return given
  }

  function members(
    at: Extract<Schema, { type: 'object' }>,
    given: Record<string, unknown>,
    field: string,
  ): Record<string, unknown> {
    const kept: Record<string, unknown> = {}
    for (const [name, member] of Object.entries(at.properties ?? {})) {
      const content = given[name] ?? ('default' in member ? member.default : undefined)
      if (content !== undefined) kept[name] = visit(member, content, `${field}.${name}`)
      else if (at.required?.includes(name) === true)
        fail('FieldValueRequired', `${field}.${name}`, 'Required value')
    }
    for (const [name, content] of Object.entries(given)) {
      if (at.properties?.[name] !== undefined) continue
      if (at.additionalProperties !== undefined)
        kept[name] = visit(at.additionalProperties, content, `${field}.${name}`)
      else if (at.preserves === true) kept[name] = content
      else unknown.push(`${field}.${name}`)
    }
    return kept
  }

  return { value: visit(schema, value, path), causes, unknown }
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return Number.isInteger(value) ? 'integer' : typeof value
}

function wrongScalar(
  schema: Exclude<Schema, { type: 'array' } | { type: 'object' }>,
  value: unknown,
): ((field: string) => [Cause['reason'], string, string]) | null {
  const shown = JSON.stringify(value)
  if (schema.type === 'integer' && schema.minimum !== undefined && Number(value) < schema.minimum)
    return (field) => [
      'FieldValueInvalid',
      field,
      `Invalid value: ${shown}: ${field} in body should be greater than or equal to ${schema.minimum}`,
    ]
  if (schema.type !== 'string') return null
  if (schema.enum !== undefined && !schema.enum.includes(String(value))) {
    const values = schema.enum.map((one) => JSON.stringify(one)).join(', ')
    return (field) => [
      'FieldValueNotSupported',
      field,
      `Unsupported value: ${shown}: supported values: ${values}`,
    ]
  }
  if (
    schema.format === 'date-time' &&
    !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(String(value))
  )
    return (field) => [
      'FieldValueInvalid',
      field,
      `Invalid value: ${shown}: ${field} in body must be of type date-time: ${shown}`,
    ]
  return null
}
