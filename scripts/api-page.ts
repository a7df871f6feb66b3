/** Generates docs/reference/api.md from the OpenAPI document. */
import { describeApi } from '../apps/api/src/index.ts'
import type { Content, JsonSchema, OpenApiDocument, Operation } from '../apps/api/src/openapi-document.ts'
import { alternative, code, fieldRows, kindRows, MADE, table, typeWords, wrapped } from './page-table.ts'

const SCHEMA_HEADINGS = ['field', 'type', 'what it is', 'example']

const linked = (name: string): string => `[${name}](#${name.toLowerCase()})`

const exampleOf = ({ examples = [], example }: { examples?: unknown[]; example?: unknown }): string => {
  const shown = examples[0] ?? example
  return shown === undefined ? '' : code(JSON.stringify(shown))
}

const withDefault = ({ description = '', default: value }: JsonSchema): string =>
  value === undefined ||
  /default:|default\)/i.test(description) ||
  (typeof value === 'object' && value !== null)
    ? description
    : `${description} Default: ${typeof value === 'string' ? value : JSON.stringify(value)}.`

/** A table of the fields of a schema, if it has any. `*` marks required fields. */
function fields(schema: JsonSchema): string[] {
  const alternatives = schema.oneOf ?? schema.anyOf ?? [schema]
  const rows = [
    ...(alternatives.length > 1 ? kindRows(alternatives) : []),
    ...alternatives.flatMap((one) => fieldRows(one, '', alternative(one) ?? '')),
  ]
  if (rows.length === 0) return []
  return table(
    SCHEMA_HEADINGS,
    rows.map(({ key, schema, isRequired }) => [
      `${code(key)}${isRequired ? ' \\*' : ''}`,
      typeWords(schema, linked),
      withDefault(schema),
      exampleOf(schema),
    ]),
  )
}

function parameters({ parameters = [] }: Operation): string[] {
  const rows = parameters.map(({ name, in: place, required = false, schema, description, example }) => [
    `${code(name)}${required ? ' \\*' : ''}`,
    place,
    withDefault({ ...schema, ...(description === undefined ? {} : { description }) }),
    exampleOf({ ...schema, example }),
  ])
  return rows.length === 0 ? [] : table(['parameter', 'in', 'what it is', 'example'], rows)
}

/** One line about a body, followed by its fields if the schema has no name. */
function content(intro: string, { content = {} }: Content): string[] {
  const [[type, media] = []] = Object.entries(content)
  if (type === undefined || media === undefined) return [wrapped(intro), '']
  const { schema } = media
  const kind = type === 'application/json' ? '' : ` (${code(type)})`
  if (schema.$ref !== undefined) return [wrapped(`${intro} ${typeWords(schema, linked)}${kind}`), '']
  return [wrapped(`${intro}${kind}`), '', ...fields(schema)]
}

function operation(method: string, path: string, one: Operation): string[] {
  const answers = Object.entries(one.responses).filter(([status]) => /^[23]/.test(status))
  return [
    `### ${code(`${method.toUpperCase()} ${path}`)}`,
    '',
    wrapped(`${one.summary.replace(/ Admin\.$/, '')} ${one.description}`),
    '',
    ...parameters(one),
    ...(one.requestBody === undefined
      ? []
      : content(one.requestBody.required ? 'Body:' : 'Body, which may be left out:', one.requestBody)),
    ...answers.flatMap(([status, answer]) => content(`**${status}**: ${answer.description}`, answer)),
  ]
}

function operations({ paths }: OpenApiDocument, tag: string): string[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, one]) =>
      one.tags.includes(tag) ? operation(method, path, one) : [],
    ),
  )
}

export async function apiPage(): Promise<string> {
  const document = await describeApi()
  const { tags, components } = document
  return [
    MADE('libs/contract/src', 'apps/api/src/{wire-schemas,routes/*}.ts', 'libs/polyclaw/src/*-route*.ts'),
    '# HTTP API',
    '',
    'This page lists every operation and every field. `GET /openapi.json` sends the same as an OpenAPI 3.1',
    'document, and `/docs` shows it in a browser.',
    '',
    'A key is sent as `Authorization: Bearer cfd_…`. \\* marks required parameters and fields. In answers,',
    'it marks fields that are always there. If a body has several forms, its table lists the fields of all.',
    'Every failure has the shape of [Error](#error); [Errors and endings](../errors.md) lists the codes.',
    '',
    ...tags.flatMap(({ name, description }) => [
      `## ${name}`,
      '',
      description,
      '',
      ...operations(document, name),
    ]),
    '## Schemas',
    '',
    'Inner fields are written with a dot. `[]` stands for each item of an array, `*` for any key. If a value',
    'has several kinds, its field `type` names the kind. `program.source (script)` exists only in a program',
    'whose `type` is `script`.',
    '',
    ...Object.entries(components.schemas).flatMap(([name, schema]) => [`### ${name}`, '', ...fields(schema)]),
  ]
    .join('\n')
    .trimEnd()
    .concat('\n')
}
