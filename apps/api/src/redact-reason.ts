/**
 * Takes secrets out of the reasons that callers give for a cancel: they stand in results and audit rows, as
 * output does.
 */
import type { ExecutionRequest } from '@cofferdam/contract'
import { compileRules, redactText } from '@cofferdam/executor'
import type { Store } from '@cofferdam/store'

/** What stands there when Postgres does not say which values are secret: a cancel must not wait for it. */
const UNKNOWN = 'cancelled'

/**
 * Makes the redactor: by known shapes, the tenant's values, and the request's variables that are named like
 * secrets.
 */
export function createReasonRedactor(
  tenants: Pick<Store['tenants'], 'get'>,
): (request: ExecutionRequest, reason: string) => Promise<string> {
  // Cancelling a whole tenant asks for each of its executions, many at once.
  const reading = new Map<string, Promise<readonly string[]>>()
  const valuesOf = (tenantId: string): Promise<readonly string[]> => {
    const shared = reading.get(tenantId)
    if (shared !== undefined) return shared
    const values = tenants
      .get(tenantId)
      .then((tenant) => tenant?.policy.redact ?? [])
      .finally(() => reading.delete(tenantId))
    reading.set(tenantId, values)
    return values
  }
  return async (request, reason) => {
    try {
      const rules = compileRules(await valuesOf(request.tenant_id), request.env ?? {})
      return redactText(rules, reason).text
    } catch {
      return UNKNOWN
    }
  }
}
