/** Reads a YAML configuration file against a strict schema. */
import { existsSync, readFileSync } from 'node:fs'
import { parseDocument } from 'yaml'
import { z } from 'zod'
import { nearestName } from './nearest-name.ts'
import { configProblems } from './read-all.ts'

/**
 * Returns the parsed file, or the schema's defaults if the file is missing and need not exist. Throws
 * `config_invalid`, which lists every problem and suggests the nearest known key for an unknown one.
 */
export function readConfigFile<T extends z.ZodType>(
  path: string,
  schema: T,
  options: { mustExist: boolean },
): z.output<T> {
  if (!options.mustExist && !existsSync(path)) return schema.parse({})
  const outcome = schema.safeParse(contentOf(path))
  if (outcome.success) return outcome.data
  throw configProblems(
    outcome.error.issues.flatMap((issue) => wordsOf(issue, schema)).map((words) => `${path}: ${words}`),
  )
}

/**
 * The file that COFFERDAM_CONFIG names, otherwise cofferdam.config.yaml in the working folder if it exists.
 */
export function readFileOf<T extends z.ZodType>(
  env: Readonly<Record<string, string | undefined>>,
  schema: T,
): z.output<T> {
  const named = env['COFFERDAM_CONFIG'] || undefined
  return readConfigFile(named ?? 'cofferdam.config.yaml', schema, { mustExist: named !== undefined })
}

function contentOf(path: string): unknown {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    throw configProblems([`${path}: ${cause instanceof Error ? cause.message : String(cause)}`])
  }
  const document = parseDocument(text)
  if (document.errors.length > 0)
    throw configProblems(document.errors.map(({ message }) => `${path}: ${message}`))
  return document.toJS() ?? {}
}

/** The messages of an issue: one for each unknown key, or a single one for any other issue. */
function wordsOf(issue: z.core.$ZodIssue, schema: z.ZodType): string[] {
  const where = issue.path.map(String).join('.') || '(root)'
  if (issue.code !== 'unrecognized_keys') return [`${where}: ${issue.message}`]
  return issue.keys.map((key) => {
    const nearest = nearestName(key, keysAt(schema, issue.path))
    return `${where}: Unrecognized key: "${key}"${nearest === null ? '' : `; did you mean ${nearest}?`}`
  })
}

/** The parts of a JSON schema that lead to inner schemas. */
interface Node {
  properties?: Record<string, Node>
  additionalProperties?: Node | boolean
  items?: Node
  anyOf?: Node[]
  oneOf?: Node[]
}

/**
 * The keys that a schema knows at a path, to suggest one for a mistyped key. Empty if the schema expects no
 * object there, or an object that allows any key.
 */
function keysAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  const root = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Node
  const found = path.reduce<Node[]>(
    (nodes, part) => nodes.flatMap((node) => choicesOf(inner(node, String(part)))),
    choicesOf(root),
  )
  return found.flatMap(({ properties = {} }) => Object.keys(properties))
}

function inner({ properties, items, additionalProperties }: Node, part: string): Node {
  const other = typeof additionalProperties === 'object' ? additionalProperties : {}
  return properties?.[part] ?? items ?? other
}

const choicesOf = (node: Node): Node[] => [node, ...(node.anyOf ?? []), ...(node.oneOf ?? [])]
