/** Reads several parts of a configuration and reports the problems of all of them at once. */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'

/** The error of a configuration with these problems, each of them a line that says where and what. */
export const configProblems = (problems: readonly string[]): CofferdamError =>
  new CofferdamError(
    'config_invalid',
    `The configuration has ${problems.length} problem(s):\n  ${problems.join('\n  ')}`,
    { details: { problems } },
  )

/**
 * Calls every reader and returns what they return. Throws one `config_invalid` with the problems of all
 * readers that throw one, each problem once.
 */
export function readAll<T extends readonly unknown[]>(...readers: { [K in keyof T]: () => T[K] }): T {
  const problems = new Set<string>()
  const values = readers.map((read) => {
    try {
      return read()
    } catch (error) {
      for (const problem of problemsOf(error)) problems.add(problem)
      return undefined
    }
  })
  if (problems.size > 0) throw configProblems([...problems])
  return values as unknown as T
}

function problemsOf(error: unknown): string[] {
  if (!isCofferdamError(error) || error.code !== 'config_invalid') throw error
  const { problems } = error.details
  return Array.isArray(problems) ? problems.map(String) : [error.message]
}
