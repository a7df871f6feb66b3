/**
 * Makes code that people can paste, which asks the API for what the page shows. It reproduces every text
 * exactly. Texts are written as JSON strings, which mean the same in JavaScript and Python. Invisible
 * characters are escaped, so that nobody pastes what they do not see.
 */
import type { ExecutionRequest } from '@cofferdam/client'

/** Run a program and wait for its result, or read an execution by its ID. */
export type Asked = { run: ExecutionRequest } | { read: string }

/** The languages, each with a function that writes the code. `origin` is the address of the API. */
export const SNIPPETS = [
  { name: 'curl', of: curlOf },
  { name: 'TypeScript', of: typescriptOf },
  { name: 'Python', of: pythonOf },
] as const satisfies ReadonlyArray<{ name: string; of: (origin: string, asked: Asked) => string }>

const hex = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`

/** JSON in which control, format and other invisible characters are escaped. Those beyond 16 bits are not. */
const json = (value: unknown, indent?: number): string =>
  JSON.stringify(value, null, indent).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (found) =>
    // Line feeds stand between the lines of the JSON text itself; in its strings they are escaped already.
    found === '\n' || found.length > 1 ? found : hex(found),
  )

/**
 * The body is a here-document: the shell expands nothing in it, and it may be longer than an argument of a
 * command. The text has no line feed at its end, so that pasting alone does not run it.
 */
function curlOf(origin: string, asked: Asked): string {
  const key = '-H "Authorization: Bearer $COFFERDAM_API_KEY"'
  if ('read' in asked) return `curl -sS ${key} '${origin}/v1/executions/${encodeURIComponent(asked.read)}'`
  // An interactive shell may take ! for a command of its history.
  const body = json(asked.run, 2).replaceAll('!', hex)
  return `curl -sS ${key} -H 'Content-Type: application/json' \\
  --data-binary @- '${origin}/v1/executions?wait=30s' <<'JSON'
${body}
JSON`
}

function typescriptOf(origin: string, asked: Asked): string {
  const options = `baseUrl: ${json(origin)}, apiKey: process.env.COFFERDAM_API_KEY ?? ''`
  return `import { createClient } from '@cofferdam/client'

const client = createClient({ ${options} })
const result = await client.${callOf(asked, TYPESCRIPT, 0)}
console.log(result)
await client.close()
`
}

function pythonOf(origin: string, asked: Asked): string {
  return `import os

from cofferdam import Client

with Client(${json(origin)}, api_key=os.environ["COFFERDAM_API_KEY"]) as client:
    result = client.${callOf(asked, PYTHON, 1)}
    print(result)
`
}

interface Dialect {
  indent: string
  key: (name: string) => string
  /** The words for true, false and null. */
  word: (value: boolean | null) => string
  /** What is written before, between and after the lines of a longer text. */
  lines: readonly [before: string, between: string, after: string]
}

const TYPESCRIPT: Dialect = {
  indent: '  ',
  // In brackets, because __proto__ outside of them would set the prototype.
  key: (name) => (name === '__proto__' ? '["__proto__"]' : /^[a-z]\w*$/i.test(name) ? name : json(name)),
  word: String,
  lines: ['[', ',', "].join('')"],
}

const PYTHON: Dialect = {
  indent: '    ',
  key: json,
  word: (value) => (value === null ? 'None' : value ? 'True' : 'False'),
  lines: ['(', '', ')'],
}

const callOf = (asked: Asked, dialect: Dialect, depth: number): string =>
  'read' in asked ? `get(${json(asked.read)})` : `run(${literal(asked.run, dialect, depth)})`

/** A value of JSON as a literal. A field of undefined is left out, as in JSON. */
function literal(value: unknown, dialect: Dialect, depth: number): string {
  const within = `\n${dialect.indent.repeat(depth + 1)}`
  const end = `\n${dialect.indent.repeat(depth)}`
  const next = (one: unknown): string => literal(one, dialect, depth + 1)
  if (typeof value === 'string') {
    const lines = value.split(/(?<=\n)/)
    if (lines.length < 2) return json(value)
    const [before, between, after] = dialect.lines
    return `${before}${lines.map((line) => `${within}${json(line)}${between}`).join('')}${end}${after}`
  }
  if (typeof value === 'boolean' || value === null) return dialect.word(value)
  if (Array.isArray(value))
    return value.length === 0 ? '[]' : `[${value.map((one) => `${within}${next(one)},`).join('')}${end}]`
  if (typeof value !== 'object') return json(value)
  const fields = Object.entries(value).filter(([, one]) => one !== undefined)
  const inner = fields.map(([name, one]) => `${within}${dialect.key(name)}: ${next(one)},`).join('')
  return inner === '' ? '{}' : `{${inner}${end}}`
}
