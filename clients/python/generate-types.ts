/**
 * Writes cofferdam/types.py from the API's OpenAPI document: a TypedDict for each named schema, and for each
 * object within one. `npm run check` compares it, and writes it with `-- --write`.
 */

interface Schema {
  $ref?: string
  type?: string | string[]
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: Schema | boolean
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
  const?: unknown
  enum?: unknown[]
  description?: string
}

const HEADER = `"""The shapes of the API's JSON. Written by generate-types.ts from /openapi.json."""
from __future__ import annotations

from typing import Any, Literal, TypedDict, Union

`
const SCALARS: Readonly<Record<string, string>> = {
  string: 'str',
  integer: 'int',
  number: 'float',
  boolean: 'bool',
  null: 'None',
}
/** The longest line of a docstring. */
const TEXT_COLUMNS = 88

/** The text of types.py. Throws for a schema that it does not know, rather than to write a wrong type. */
export function pythonTypes(document: { components: { schemas: Record<string, Schema> } }): string {
  const { schemas } = document.components
  const blocks: string[] = []
  const names = new Set(Object.keys(schemas))

  /** The type of a schema. `path` names the objects in it, as in ExecutionResultUsage. */
  function typeOf(schema: Schema, path: string): string {
    if (schema.$ref !== undefined) return schema.$ref.slice(schema.$ref.lastIndexOf('/') + 1)
    if ('const' in schema) return `Literal[${literal(schema.const)}]`
    if (schema.enum !== undefined) return `Literal[${schema.enum.map(literal).join(', ')}]`
    const variants = schema.anyOf ?? schema.oneOf
    if (variants !== undefined) return unionOf(variants.map((one) => typeOf(one, pathOfVariant(one, path))))
    if (Array.isArray(schema.type))
      return unionOf(schema.type.map((type) => typeOf({ ...schema, type }, path)))
    if (schema.type === 'array') return `list[${typeOf(schema.items ?? {}, `${path}Item`)}]`
    if (schema.type === 'object') return objectOf(schema, path)
    if (schema.type === undefined && schema.allOf === undefined) return 'Any'
    const scalar = SCALARS[schema.type ?? '']
    if (scalar === undefined) throw new Error(`${path}: no Python type for ${JSON.stringify(schema)}`)
    return scalar
  }

  function objectOf(schema: Schema, path: string): string {
    if (schema.properties === undefined) {
      const values = schema.additionalProperties
      return `dict[str, ${typeof values === 'object' ? typeOf(values, `${path}Value`) : 'Any'}]`
    }
    const name = unused(path)
    const required = new Set(schema.required)
    const fields = Object.entries(schema.properties).map(([field, one]) => ({
      isRequired: required.has(field),
      lines: [
        `    ${field}: ${typeOf(one, path + pascal(field))}`,
        ...(one.description === undefined ? [] : docLines(one.description, '    ')),
      ],
    }))
    const always = fields.filter(({ isRequired }) => isRequired).flatMap(({ lines }) => lines)
    const sometimes = fields.filter(({ isRequired }) => !isRequired).flatMap(({ lines }) => lines)
    const doc = schema.description === undefined ? [] : docLines(schema.description, '    ')
    if (sometimes.length === 0) add(`class ${name}(TypedDict):`, [...doc, ...always])
    else if (always.length === 0) add(`class ${name}(TypedDict, total=False):`, [...doc, ...sometimes])
    else {
      // Python 3.9 has no NotRequired, so a base class has the required fields.
      add(`class _${name}Required(TypedDict):`, always)
      add(`class ${name}(_${name}Required, total=False):`, [...doc, ...sometimes])
    }
    return name
  }

  function add(head: string, body: string[]): void {
    blocks.push([head, ...(body.length === 0 ? ['    pass'] : body)].join('\n'))
  }

  function unused(path: string): string {
    let name = path
    for (let n = 2; taken.has(name); n++) name = `${path}${n}`
    taken.add(name)
    return name
  }
  const taken = new Set<string>()

  for (const [name, schema] of Object.entries(schemas)) {
    const type = typeOf(schema, name)
    if (type !== name) blocks.push(`${name} = ${type}`)
  }
  const exported = [...names].toSorted().map((name) => `    "${name}",`)
  return `${HEADER}\n${blocks.join('\n\n\n')}\n\n\n__all__ = [\n${exported.join('\n')}\n]\n`
}

const literal = (value: unknown): string => (value === null ? 'None' : JSON.stringify(value))

function unionOf(types: readonly string[]): string {
  const distinct = [...new Set(types)]
  return distinct.includes('Any')
    ? 'Any'
    : distinct.length === 1
      ? distinct.join('')
      : `Union[${distinct.join(', ')}]`
}

/** Variants of a union are named after their constant `type` or `op`, as in ScriptProgram. */
function pathOfVariant({ properties = {} }: Schema, path: string): string {
  const constant = [properties['type'], properties['event']].find((one) => typeof one?.const === 'string')
  return constant === undefined ? path : path + pascal(String(constant.const))
}

const pascal = (name: string): string =>
  name.replaceAll(/(?:^|[^a-zA-Z0-9]+)([a-zA-Z0-9])/g, (_, first: string) => first.toUpperCase())

/** A text as the docstring of a field or class. */
function docLines(text: string, indent: string): string[] {
  const safe = text.replaceAll('\\', '\\\\').replaceAll('"""', "'''")
  const lines: string[] = []
  let line = `${indent}"""`
  for (const word of safe.split(/\s+/)) {
    if (line.length + word.length + 1 > TEXT_COLUMNS && line.trim() !== '"""') {
      lines.push(line)
      line = indent + word
    } else line += line.endsWith('"""') && line.trim() === '"""' ? word : ` ${word}`
  }
  return [...lines, line.endsWith('"') ? `${line} """` : `${line}"""`]
}
