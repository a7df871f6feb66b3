/** Reads a YAML configuration file against a strict schema. */
import { existsSync, readFileSync } from 'node:fs'
import { CofferdamError } from '@cofferdam/contract'
import { parse as parseYaml } from 'yaml'
import type { z } from 'zod'

/** The parsed file. The schema's defaults if the default file is missing. Throws `config_invalid`. */
export function readConfigFile<T extends z.ZodType>(
  path: string,
  schema: T,
  options: { mustExist: boolean },
): z.output<T> {
  if (!options.mustExist && !existsSync(path)) return schema.parse({})
  let raw: unknown
  try {
    raw = parseYaml(readFileSync(path, 'utf8')) ?? {}
  } catch (cause) {
    throw new CofferdamError(
      'config_invalid',
      `${path}: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause },
    )
  }
  const outcome = schema.safeParse(raw)
  if (outcome.success) return outcome.data
  const problems = outcome.error.issues.map(
    (i) => `${i.path.map(String).join('.') || '(root)'}: ${i.message}`,
  )
  throw new CofferdamError(
    'config_invalid',
    `${path} has ${problems.length} problem(s):\n  ${problems.join('\n  ')}`,
    {
      details: { problems },
    },
  )
}
