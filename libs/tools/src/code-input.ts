/** What a model may say: the input of the tool, its JSON Schema, and its validation. */
import type { Issue, JsonSchema, ObjectSchema } from './json-schema.ts'
import type { Language } from './languages.ts'

/** A file that the model puts into the work directory before the program runs. */
export interface CodeFile {
  /** Relative to the work directory. */
  path: string
  content: string
}

/** One program. What a model leaves out, or sets to null, is absent. */
export interface CodeInput {
  language: Language
  /** At most 1 MiB in UTF-8, the API's bound. */
  source: string
  /** Only if the tool was made with `session: { prefix }`. */
  session?: string
  /** At most 32 files, and 4 MiB in all. */
  files?: CodeFile[]
}

const SOURCE_BYTES = 1024 * 1024
/** A model writes these files itself. The application sends larger ones in `request.files`. */
const FILES_MAX = 32
const FILES_BYTES = 4 * 1024 * 1024
const PATH_MAX = 512
/** The key of a session is the prefix, a dot and this name. The API allows 128 characters for a key. */
export const SESSION_NAME_MAX = 40
const SESSION_NAME = `^[A-Za-z0-9_-]{1,${SESSION_NAME_MAX}}$`

export interface InputRules {
  languages: readonly Language[]
  /** Whether the model may name a session. */
  namesSessions: boolean
}

/** The JSON Schema of the input. Descriptions are for the model. */
export function inputSchema({ languages, namesSessions }: InputRules): ObjectSchema {
  const session: JsonSchema = {
    type: 'string',
    description:
      'A name that you choose. Calls with the same name share files and, per language, variables. Without ' +
      'it every call starts from nothing.',
    pattern: SESSION_NAME,
  }
  return {
    type: 'object',
    properties: {
      language: { type: 'string', enum: [...languages], description: 'The language of source.' },
      source: { type: 'string', description: 'The program. Print what you want to see.' },
      ...(namesSessions ? { session } : {}),
      files: {
        type: 'array',
        description: 'Text files to put into the work directory first.',
        maxItems: FILES_MAX,
        items: {
          type: 'object',
          properties: {
            path: { type: 'string', description: 'Relative to the work directory.', maxLength: PATH_MAX },
            content: { type: 'string' },
          },
          required: ['path', 'content'],
          additionalProperties: false,
        },
      },
    },
    required: ['language', 'source'],
    additionalProperties: false,
  }
}

export type Parsed = { value: CodeInput } | { issues: readonly Issue[] }

/** Validates what a model sent. All problems come at once, so that the model can correct them in one call. */
export function parseInput(input: unknown, { languages, namesSessions }: InputRules): Parsed {
  if (!isRecord(input)) return { issues: [{ message: 'expected an object', path: [] }] }
  const issues: Issue[] = []
  const problem = (message: string, ...path: PropertyKey[]): void => void issues.push({ message, path })
  const given = Object.entries(input).filter(([, value]) => value !== undefined && value !== null)
  const { language, source, session, files, ...unknown } = Object.fromEntries(given)

  if (!languages.includes(language as Language))
    problem(`expected one of ${languages.join(', ')}`, 'language')
  if (typeof source !== 'string') problem('expected the text of a program', 'source')
  else if (bytesOf(source) > SOURCE_BYTES) problem('expected at most 1 MiB', 'source')
  const mayName = namesSessions && typeof session === 'string' && new RegExp(SESSION_NAME).test(session)
  if (session !== undefined && !mayName)
    problem(
      namesSessions ? `expected 1-${SESSION_NAME_MAX} letters, digits, _ or -` : 'expected nothing',
      'session',
    )
  for (const key of Object.keys(unknown).slice(0, 10)) problem('expected nothing', key)
  const listed = files === undefined ? [] : filesOf(files, problem)
  if (issues.length > 0) return { issues }
  return {
    value: {
      language: language as Language,
      source: source as string,
      ...(session === undefined ? {} : { session: session as string }),
      ...(listed.length === 0 ? {} : { files: listed }),
    },
  }
}

function filesOf(files: unknown, problem: (message: string, ...path: PropertyKey[]) => void): CodeFile[] {
  if (!Array.isArray(files) || files.length > FILES_MAX) {
    problem(`expected a list of at most ${FILES_MAX} files`, 'files')
    return []
  }
  const listed: CodeFile[] = []
  for (const [at, file] of files.entries()) {
    const { path, content } = isRecord(file) ? file : {}
    if (typeof path !== 'string' || !isSafePath(path))
      problem('expected a relative path without "..", ".", empty parts or NUL', 'files', at, 'path')
    else if (listed.some((other) => other.path === path))
      problem('expected each path once', 'files', at, 'path')
    if (typeof content !== 'string') problem('expected text', 'files', at, 'content')
    listed.push({ path: String(path), content: String(content) })
  }
  const bytes = listed.reduce((sum, { content }) => sum + bytesOf(content), 0)
  if (bytes > FILES_BYTES) problem('expected at most 4 MiB in all', 'files')
  return listed
}

/** The API's own rule for paths. */
const isSafePath = (path: string): boolean =>
  path.length <= PATH_MAX &&
  !path.includes('\0') &&
  path.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && bytesOf(part) <= 255)

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const bytesOf = (text: string): number => new TextEncoder().encode(text).length

/** The problems in one line for the model, such as `language: expected one of python, bash`. */
export const issuesText = (issues: readonly Issue[]): string =>
  issues
    .slice(0, 10)
    .map(({ message, path = [] }) => `${path.length === 0 ? 'input' : path.join('.')}: ${message}`)
    .join('; ')
