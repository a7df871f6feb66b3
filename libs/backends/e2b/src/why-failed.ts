/** Describes to an operator why a call to E2B failed: DNS, the network, a timeout or the service. */
import { isCofferdamError } from '@cofferdam/contract'

/** Never quotes a runtime's error, which may contain headers and bodies. */
export function whyFailed(error: unknown): string {
  if (isCofferdamError(error)) return error.message
  if (!(error instanceof Error)) return 'unknown'
  if (error.name === 'TimeoutError') return 'no answer in time'
  const { code } = (error.cause ?? {}) as { code?: unknown }
  return typeof code === 'string' ? code.slice(0, 100) : error.name
}
