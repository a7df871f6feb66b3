/** Parses input. A zod failure becomes one `CofferdamError` with the field, expectation and actual value. */
import type { z } from 'zod'
import { CofferdamError } from './errors.ts'

export interface Problem {
  /** Dotted path of the field, `(root)` for the whole body. */
  field: string
  message: string
}

/** Parses `input`, or throws `invalid_request` whose details list at most 20 problems. */
export function parse<T extends z.ZodType>(schema: T, input: unknown, what = 'request'): z.output<T> {
  const outcome = schema.safeParse(input)
  if (outcome.success) return outcome.data
  const problems = flatten(outcome.error.issues, input)
  const shown = problems.slice(0, 3).map((p) => `${p.field}: ${p.message}`)
  const more = problems.length > 3 ? ` (and ${problems.length - 3} more)` : ''
  throw new CofferdamError('invalid_request', `${what} is not valid: ${shown.join('; ')}${more}`, {
    details: { problems },
  })
}

/**
 * Parses what another release may have written: unknown fields are kept, at any depth. Only for schemas
 * without defaults and transforms. Throws the ZodError of any other problem.
 */
export function parseOfAnyRelease<T extends z.ZodType>(schema: T, input: unknown): z.output<T> {
  const outcome = schema.safeParse(input)
  if (outcome.success) return outcome.data
  const isOnlyNewer = outcome.error.issues.every(({ code }) => code === 'unrecognized_keys')
  if (isOnlyNewer) return input as z.output<T>
  throw outcome.error
}

function flatten(issues: readonly z.core.$ZodIssue[], input: unknown): Problem[] {
  return issues.slice(0, 20).map((issue) => ({
    field: issue.path.length === 0 ? '(root)' : issue.path.map(String).join('.').slice(0, 200),
    message: messageOf(issue, input).slice(0, 400),
  }))
}

/** For an invalid name in a record, describes only the name, because its value may be a secret. */
function messageOf(issue: z.core.$ZodIssue, input: unknown): string {
  if (issue.code === 'invalid_key')
    return `${issue.issues[0]?.message ?? issue.message}, got ${describe(issue.path.at(-1))}`
  return `${issue.message}, got ${describe(valueAt(input, issue.path))}`
}

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, key)
        ? Reflect.get(value, key)
        : undefined,
    input,
  )
}

/** Describes a value without repeating long or secret text. */
function describe(value: unknown): string {
  if (value === undefined) return 'nothing'
  if (value === null) return 'null'
  if (Array.isArray(value)) return `an array of ${value.length}`
  if (typeof value === 'string')
    return value.length <= 40 ? JSON.stringify(value) : `a string of ${value.length} characters`
  if (typeof value === 'object') return `an object with ${Object.keys(value).length} keys`
  return typeof value === 'number' || typeof value === 'boolean'
    ? `${typeof value} ${value}`
    : `a ${typeof value}`
}
