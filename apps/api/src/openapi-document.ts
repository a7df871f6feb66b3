/** What has to be changed in the OpenAPI document that fastify makes. */

export interface JsonSchema {
  $ref?: string
  type?: string | string[]
  format?: string
  properties?: Record<string, JsonSchema>
  required?: string[]
  items?: JsonSchema
  additionalProperties?: JsonSchema | boolean
  allOf?: JsonSchema[]
  anyOf?: JsonSchema[]
  oneOf?: JsonSchema[]
  enum?: unknown[]
  const?: unknown
  default?: unknown
  minimum?: number
  maximum?: number
  description?: string
  examples?: unknown[]
}

export interface Content {
  content?: Record<string, { schema: JsonSchema }>
}

export interface Operation {
  operationId: string
  summary: string
  description: string
  tags: string[]
  security?: unknown[]
  parameters?: {
    name: string
    in: string
    required?: boolean
    description?: string
    example?: unknown
    schema: JsonSchema
  }[]
  requestBody?: Content & { required: boolean }
  responses: Record<string, Content & { description: string }>
}

export interface OpenApiDocument {
  openapi: string
  info: { title: string; version: string }
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, JsonSchema>; securitySchemes: Record<string, unknown> }
}

/** What fastify writes for a response without a description. */
const NO_DESCRIPTION = 'Default Response'
const MEANINGS: Record<string, string> = {
  200: 'It worked.',
  201: 'It was created. `Location` names it if it has a path of its own.',
  202: 'It takes longer. `Location` names the execution that does it.',
}

/** Returns a corrected copy. `bodyless` has the IDs of operations whose body may be left out. */
export function finishDocument(document: object, bodyless: ReadonlySet<string>): OpenApiDocument {
  // `{*}` is fastify's word for the rest of a path.
  const text = JSON.stringify(document)
    .replaceAll('/{*}"', '/{path}"')
    .replaceAll('"name":"*"', '"name":"path"')
  const finished = withUsedSchemas(JSON.parse(text) as OpenApiDocument)
  for (const operation of Object.values(finished.paths).flatMap((item) => Object.values(item))) {
    if (operation.requestBody !== undefined)
      operation.requestBody.required = !bodyless.has(operation.operationId)
    for (const [status, response] of Object.entries(operation.responses))
      if (response.description === NO_DESCRIPTION) response.description = MEANINGS[status] ?? NO_DESCRIPTION
  }
  for (const [name, schema] of Object.entries(finished.components.schemas))
    if (isInput(name)) tellDefaults(schema)
  return withPlainNames(finished)
}

/** Removes unreferenced schemas. Each named schema exists once as input and once as output. */
function withUsedSchemas(document: OpenApiDocument): OpenApiDocument {
  const { schemas } = document.components
  const used = new Set<string>()
  const visit = (value: unknown): void => {
    for (const [, name] of JSON.stringify(value).matchAll(/"#\/components\/schemas\/([^"]+)"/g)) {
      if (name === undefined || used.has(name)) continue
      used.add(name)
      visit(schemas[name] ?? null)
    }
  }
  visit(document.paths)
  const kept = Object.fromEntries(Object.entries(schemas).filter(([name]) => used.has(name)))
  return { ...document, components: { ...document.components, schemas: kept } }
}

/** A default in words. Null if there is none, or one that only a description can explain. */
function toldValue(value: unknown): string | null {
  if (typeof value === 'number') return value.toLocaleString('en')
  if (typeof value === 'string' || typeof value === 'boolean') return String(value)
  return Array.isArray(value) && value.length > 0 ? value.map(toldValue).join(', ') : null
}

const INPUT = 'Input'
const isInput = (name: string): boolean => name.endsWith(INPUT)

/**
 * Moves defaults of a request into the descriptions. openapi-typescript makes a property with the keyword
 * `default` required in its types, so a request that leaves it out would not compile.
 */
function tellDefaults(schema: JsonSchema): void {
  for (const property of Object.values(schema.properties ?? {})) {
    const { default: value, description = '' } = property
    delete property.default
    const told = toldValue(value)
    if (told !== null && !/default:|default\)/i.test(description))
      property.description = `${description} Default: ${told}.`
    tellDefaults(property)
  }
  for (const part of [schema.items ?? [], schema.anyOf ?? [], schema.oneOf ?? []].flat()) tellDefaults(part)
}

/** Renames `ThingInput` to `Thing` where no other schema is called `Thing`. */
function withPlainNames(document: OpenApiDocument): OpenApiDocument {
  const names = Object.keys(document.components.schemas)
  const plain = names.filter((name) => isInput(name) && !names.includes(name.slice(0, -INPUT.length)))
  const text = plain.reduce(
    (text, name) =>
      text
        .replaceAll(
          `"#/components/schemas/${name}"`,
          `"#/components/schemas/${name.slice(0, -INPUT.length)}"`,
        )
        .replace(`"${name}":{`, `"${name.slice(0, -INPUT.length)}":{`),
    JSON.stringify(document),
  )
  return JSON.parse(text) as OpenApiDocument
}
