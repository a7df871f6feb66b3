/** Pages of lists in both planes: `maxResults` (1 to 100, default 10) and `nextToken` (AWS API reference). */
import { Failure } from './failure.ts'

const DEFAULT_RESULTS = 10
const RESULTS_MAX = 100

/** Returns the requested page with at most `pageMax` entries. Throws ValidationException. */
export function pageOf<T>(
  all: readonly T[],
  asked: { maxResults?: unknown; nextToken?: unknown },
  pageMax = RESULTS_MAX,
): { page: T[]; nextToken?: string } {
  const size = wholeIn('maxResults', asked.maxResults ?? DEFAULT_RESULTS)
  if (size < 1 || size > RESULTS_MAX) throw invalid('maxResults')
  const from = wholeIn('nextToken', asked.nextToken ?? 0)
  const to = from + Math.min(size, pageMax)
  return { page: all.slice(from, to), ...(to < all.length ? { nextToken: String(to) } : {}) }
}

/** Throws ValidationException for settings that the double does not support. */
export function refuseUnkept(asked: Record<string, unknown>): void {
  for (const field of ['certificates', 'filesystemConfigurations'])
    if (Array.isArray(asked[field]) && asked[field].length > 0)
      throw new Failure('ValidationException', `this double has no ${field}`, 'FieldValidationFailed', field)
}

function wholeIn(field: string, value: unknown): number {
  if (!/^\d{1,9}$/.test(String(value))) throw invalid(field)
  return Number(value)
}

const invalid = (field: string): Failure =>
  new Failure('ValidationException', `The value of ${field} is not valid`, 'FieldValidationFailed', field)
