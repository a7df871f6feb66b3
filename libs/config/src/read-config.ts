/** Reads an app's configuration, one field per variable. All problems are reported at once. */
import type { z } from 'zod'
import { nearestName } from './nearest-name.ts'
import { configProblems } from './read-all.ts'
import { KNOWN_VARIABLES } from './variables.ts'

export interface ConfigField<T extends z.ZodType = z.ZodType> {
  /** Environment variable. */
  variable: string
  /** Parses the variable's text. Its default applies when the variable is unset or empty. */
  schema: T
  /** One line for docs/configuration.md and error messages. */
  description: string
  example: string
  /** Hidden by --print-config. */
  secret?: boolean
}

export type ConfigFields = Record<string, ConfigField>
export type ConfigOf<F extends ConfigFields> = { [K in keyof F]: z.output<F[K]['schema']> }

export interface LoadedConfig<F extends ConfigFields> {
  config: ConfigOf<F>
  /** The source of each value. */
  sources: { [K in keyof F]: 'environment' | 'default' }
}

/** Parses `env` with `fields`. Throws `config_invalid`, which lists every problem and an example for each. */
export function readConfig<F extends ConfigFields>(
  fields: F,
  env: Readonly<Record<string, string | undefined>>,
): LoadedConfig<F> {
  const problems = unknownVariables(fields, env)
  const config: Record<string, unknown> = {}
  const sources: Record<string, 'environment' | 'default'> = {}
  for (const [name, field] of Object.entries(fields)) {
    const text = env[field.variable] === '' ? undefined : env[field.variable]
    const outcome = field.schema.safeParse(text)
    sources[name] = text === undefined ? 'default' : 'environment'
    if (outcome.success) config[name] = outcome.data
    else {
      const found = outcome.error.issues.map((issue) => issue.message).join(', ')
      problems.push(`${field.variable}: ${found} (example: ${field.example})`)
    }
  }
  if (problems.length > 0) throw configProblems(problems)
  return { config: config as ConfigOf<F>, sources: sources as LoadedConfig<F>['sources'] }
}

/** The effective configuration as text: each value with its source, secrets hidden. */
export function printConfig<F extends ConfigFields>(fields: F, loaded: LoadedConfig<F>): string {
  return Object.entries(fields)
    .map(([name, field]) => {
      const value = loaded.config[name]
      const shown =
        field.secret === true && value !== undefined ? hideCredentials(String(value)) : JSON.stringify(value)
      return `${field.variable}=${shown ?? ''}  # ${loaded.sources[name]}`
    })
    .join('\n')
}

/** Shows a URL without its password, and hides every other secret. */
function hideCredentials(text: string): string {
  if (!URL.canParse(text)) return '<hidden>'
  const url = new URL(text)
  if (url.password !== '') url.password = 'hidden'
  return url.href
}

function unknownVariables(fields: ConfigFields, env: Readonly<Record<string, string | undefined>>): string[] {
  const known = [...new Set([...KNOWN_VARIABLES, ...Object.values(fields).map((f) => f.variable)])]
  return Object.keys(env)
    .filter((name) => name.startsWith('COFFERDAM_') && !known.includes(name))
    .map((name) => {
      const nearest = nearestName(name, known)
      return `${name}: no such variable${nearest === null ? '' : `; did you mean ${nearest}?`}`
    })
}
