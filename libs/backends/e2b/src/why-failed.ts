/** What an operator is told of a failure below us, in a few public words: which of name, network, time or service it was. */
import { isCofferdamError } from '@cofferdam/contract'

/** Never what a runtime's error quotes: headers and bodies may stand in there. */
export function whyFailed(error: unknown): string {
  if (isCofferdamError(error)) return error.message
  if (!(error instanceof Error)) return 'unknown'
  if (error.name === 'TimeoutError') return 'no answer in time'
  const { code } = (error.cause ?? {}) as { code?: unknown }
  return typeof code === 'string' ? code.slice(0, 100) : error.name
}
