/**
 * The form of the playground as texts: the choices that the address contains, and the request that it makes.
 * A field is named by its path in the request, so that an error of the API can be shown at its field.
 */
import type { ExecutionRequest } from '@cofferdam/client'
import type { Failure } from '../../api/failure.ts'
import { LIMIT_FIELDS, limitsOf, linesOf, textOf } from '../execution/rerun/edit-of.ts'

type Script = Extract<ExecutionRequest['program'], { type: 'script' }>

/** The languages, each with a program to begin with. */
export const EXAMPLES: ReadonlyMap<string, string> = new Map<Script['language'], string>([
  ['python', "print('Hello')\n1 + 1\n"],
  ['javascript', "console.log('Hello')\n1 + 1\n"],
  ['typescript', "const word: string = 'Hello'\nconsole.log(word)\n"],
  ['bash', 'echo Hello\n'],
])

/** Weakest first. */
export const ISOLATIONS = [
  'none',
  'process',
  'jail',
  'container',
  'gvisor',
  'microvm-emulated',
  'microvm',
] as const satisfies ReadonlyArray<ExecutionRequest['min_isolation']>

/** The limits of the form: those of a rerun, and the soft deadline. */
export const LIMITS = [
  { name: 'soft_timeout_ms', words: 'Soft deadline, s', times: 1000, min: 0.01, max: 86_400, step: 'any' },
  ...LIMIT_FIELDS,
] as const

/** Texts that the browser may keep. Variables are not among them: they are secrets as a rule. */
export const KEPT_TEXTS = ['program.source', 'program.argv', 'stdin', 'artifacts'] as const

/** What the form has where the address says nothing. */
const DEFAULTS: Readonly<Record<string, string>> = { agent_id: 'playground', 'program.language': 'python' }

/**
 * The choices that the address contains: the form's field, the name in the query, and how many units of the
 * API one unit of the form is.
 */
const CHOICES: ReadonlyArray<{ field: string; name: string; times?: number }> = [
  { field: 'tenant_id', name: 'tenant' },
  { field: 'agent_id', name: 'agent_id' },
  { field: 'program.language', name: 'language' },
  { field: 'backend', name: 'backend' },
  { field: 'min_isolation', name: 'min_isolation' },
  { field: 'network', name: 'network' },
  ...LIMITS.map(({ name, times }) => ({ field: `limits.${name}`, name, times })),
]

/** The choices in the query of an address, as one text. Other names are left out. */
export const choicesIn = (query: URLSearchParams): string =>
  new URLSearchParams(
    CHOICES.flatMap(({ name }) => (query.get(name) ? [[name, query.get(name) ?? '']] : [])),
  ).toString()

/** The texts of the fields that an address chooses. Limits are in the units of the API there. */
export function textsOf(choices: string): Record<string, string> {
  const query = new URLSearchParams(choices)
  const texts = CHOICES.map(({ field, name, times = 1 }) => {
    const value = query.get(name) ?? ''
    return [field, times === 1 || value === '' ? value : String(Number(value) / times)] as const
  })
  return Object.fromEntries(texts.map(([field, text]) => [field, text || (DEFAULTS[field] ?? '')]))
}

/** The choices of the form, for the query of the address. Null for a default, which is left out. */
export function queryOf(form: FormData): Record<string, string | null> {
  const limits: Record<string, number> = limitsOf(LIMITS, (name) => textOf(form, `limits.${name}`))
  return Object.fromEntries(
    CHOICES.map(({ field, name, times }) => {
      const text = times === undefined ? textOf(form, field).trim() : String(limits[name] ?? '')
      return [name, text === DEFAULTS[field] ? null : text]
    }),
  )
}

/** `NAME=value`, one a line. A name alone has an empty value. */
const variablesOf = (text: string): Record<string, string> =>
  Object.fromEntries(
    linesOf(text)
      .filter((line) => line.trim() !== '')
      .map((line) => {
        const [name = ''] = line.split('=', 1)
        return [name.trim(), line.slice(name.length + 1)]
      }),
  )

/** The request of the form, as the API takes it. Empty fields are left out. */
export function requestOf(form: FormData): ExecutionRequest {
  const text = (name: string): string => textOf(form, name)
  const argv = linesOf(text('program.argv'))
  const program: Script = {
    type: 'script',
    language: text('program.language') as Script['language'],
    source: text('program.source'),
    ...(argv.length === 0 ? {} : { argv }),
  }
  const more = {
    stdin: text('stdin'),
    env: variablesOf(text('env')),
    artifacts: linesOf(text('artifacts')),
    limits: limitsOf(LIMITS, (name) => text(`limits.${name}`)),
    network: text('network') as 'public' | '',
    backend: text('backend'),
    min_isolation: text('min_isolation') as NonNullable<ExecutionRequest['min_isolation']>,
  }
  const given = Object.entries(more).filter(([, value]) =>
    typeof value === 'string' ? value !== '' : Object.keys(value).length > 0,
  )
  const whose = { tenant_id: text('tenant_id').trim(), agent_id: text('agent_id').trim() }
  return { ...whose, program, ...(Object.fromEntries(given) as Partial<ExecutionRequest>) }
}

/** What the API objects to in a field, or in a part of it. Undefined if nothing. */
export function problemOf(failure: Failure | null, field: string): string | undefined {
  const problems: unknown = failure?.details['problems']
  if (!Array.isArray(problems)) return undefined
  const found: unknown = problems.find(
    (one) => typeof one?.field === 'string' && `${one.field}.`.startsWith(`${field}.`),
  )
  const message: unknown = Object(found)['message']
  return typeof message === 'string' ? message : undefined
}
