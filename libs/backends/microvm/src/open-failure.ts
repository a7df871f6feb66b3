/** Any failure before a program began, as the one error that callers know. */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'

const FULL: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT'])
export const DISK_FULL =
  'No space is left in the runtime folder of the virtual machines. Free some, or set another `runtime_dir`.'

/** Returns a `sandbox_open_failed` whose message begins with `what`. Returns a CofferdamError unchanged. */
export function openFailure(what: string, error: unknown): CofferdamError {
  if (isCofferdamError(error)) return error
  return new CofferdamError('sandbox_open_failed', `${what}: ${reasonOf(error)}`, { cause: error })
}

function reasonOf(error: unknown): string {
  if (error instanceof DOMException && error.name === 'TimeoutError') return 'it was not ready in time.'
  if (!(error instanceof Error)) return 'for an unknown reason.'
  return FULL.has((error as NodeJS.ErrnoException).code) ? DISK_FULL : error.message
}
