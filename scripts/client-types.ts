/** Writes the types of the HTTP client from an OpenAPI document. */

/** The part of JSON Schema that zod writes. */
export interface Schema {
  $ref?: string
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
  not?: Schema
  pattern?: string
  items?: Schema
  prefixItems?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: Schema | boolean
  description?: string
  default?: unknown
}

interface Content {
  content?: Record<string, { schema: Schema }>
}
interface Operation {
  operationId: string
  parameters?: { name: string; in: string; required?: boolean; description?: string; schema: Schema }[]
  requestBody?: Content & { required?: boolean }
  responses: Record<string, Content>
}
export interface ApiDocument {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema> }
}

/** TypeScript with one interface per component, and `Operations` by operation ID. Not formatted. */
export function clientTypes({ paths, components }: ApiDocument): string {
  const named = Object.entries(components.schemas).toSorted(([a], [b]) => (a < b ? -1 : 1))
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods))
  return [
    ...named.map(([name, schema]) => `${comment(schema)}export type ${nameOf(name)} = ${typeOf(schema)}`),
    '/** Query, body and answer of each operation of the API, by its ID in /openapi.json. */',
    `export interface Operations {${operations.map(operationOf).join('\n')}}`,
    '',
  ].join('\n\n')
}

function operationOf({ operationId, parameters = [], requestBody, responses }: Operation): string {
  const query = parameters.filter((one) => one.in === 'query')
  const fields = query.map(({ name, required = false, description, schema }) =>
    field(name, { ...numberOf(schema), ...(description === undefined ? {} : { description }) }, required),
  )
  const body = requestBody === undefined ? 'undefined' : contentOf(requestBody)
  const optional = requestBody !== undefined && requestBody.required !== true ? ' | undefined' : ''
  const good = responses['200'] ?? responses['201'] ?? {}
  const result = contentOf(good)
  return `${operationId}: { query: {${fields.join('\n')}}\n body: ${body}${optional}\n result: ${result} }`
}

/** In a query every value is a string. A caller passes a number where the pattern allows only digits. */
const numberOf = (schema: Schema): Schema =>
  schema.pattern?.startsWith('^[1-9]\\d') === true ? { ...schema, type: 'integer' } : schema

/** The name of a component's type. `Error` would hide the global one. */
const nameOf = (component: string): string => (component === 'Error' ? 'ErrorBody' : component)

/** JSON and streams of JSON have types. Everything else is bytes. */
function contentOf({ content = {} }: Content): string {
  const [type, media] = Object.entries(content)[0] ?? []
  if (type === undefined || media === undefined) return 'undefined'
  return /json|event-stream/.test(type) ? typeOf(media.schema) : 'Uint8Array'
}

export function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) return nameOf(schema.$ref.split('/').at(-1) ?? '')
  if ('const' in schema) return JSON.stringify(schema.const)
  if (schema.enum !== undefined) return union(schema.enum.map((value) => JSON.stringify(value)))
  const choices = schema.anyOf ?? schema.oneOf
  if (choices !== undefined) return union(choices.map(typeOf))
  if (schema.allOf !== undefined) return schema.allOf.map((part) => `(${typeOf(part)})`).join(' & ')
  if (schema.not !== undefined) return 'undefined'
  if (Array.isArray(schema.type)) return union(schema.type.map((type) => typeOf({ ...schema, type })))
  return plainType(schema)
}

function plainType(schema: Schema): string {
  switch (schema.type) {
    case 'string':
      return textType(schema.pattern)
    case 'integer':
    case 'number':
      return 'number'
    case 'boolean':
    case 'null':
      return schema.type
    case 'array':
      if (schema.prefixItems !== undefined) return `[${schema.prefixItems.map(typeOf).join(', ')}]`
      return `Array<${typeOf(schema.items ?? {})}>`
    case 'object':
      return objectType(schema)
    default:
      return 'unknown'
  }
}

/** The type of an ID contains its prefix, such as `exe_…`. Other texts are `string`. */
function textType(pattern = ''): string {
  const prefix = /^\^([a-z]{3})_\[0-9a-f\]/.exec(pattern)?.[1]
  return prefix === undefined ? 'string' : `\`${prefix}_\${string}\``
}

function objectType({ properties = {}, required = [], additionalProperties = {} }: Schema): string {
  const fields = Object.entries(properties).map(([name, schema]) =>
    field(name, schema, required.includes(name)),
  )
  const isOpen = additionalProperties !== false
  const rest = typeof additionalProperties === 'boolean' ? {} : additionalProperties
  if (fields.length === 0) return isOpen ? `Record<string, ${typeOf(rest)}>` : 'Record<string, never>'
  // An index signature with a type other than unknown would conflict with the types of the named fields.
  return `{${[...fields, ...(isOpen ? ['[more: string]: unknown'] : [])].join('\n')}}`
}

function field(name: string, schema: Schema, required: boolean): string {
  const key = /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name)
  // `undefined` is accepted as absent, also with exactOptionalPropertyTypes.
  const type = typeOf(schema)
  const absent = required || type === 'unknown' ? '' : ' | undefined'
  return `${comment(schema)}${key}${required ? '' : '?'}: ${type}${absent}`
}

const union = (types: string[]): string => [...new Set(types)].join(' | ')

/** Width of the text of a comment. With the deepest indent, 16 columns, and its marks a line has 110. */
const WIDTH = 87

/** The description and the default as a doc comment, which editors show. */
function comment({ description, default: value }: Schema): string {
  const shown = JSON.stringify(value) ?? ''
  const unset = value === undefined || shown.length > 60 ? '' : `Default: \`${shown}\`.`
  const text = [description?.trim(), unset].filter((part) => part !== undefined && part !== '').join(' ')
  if (text === '') return ''
  const lines =
    text
      .replaceAll('*/', '*\\/')
      .replaceAll(/\s+/g, ' ')
      .match(new RegExp(`.{1,${WIDTH}}(?: |$)|\\S+`, 'g')) ?? []
  if (lines.length === 1) return `/** ${lines[0]} */\n`
  return `/**\n${lines.map((line) => ` * ${line.trimEnd()}`).join('\n')}\n */\n`
}
