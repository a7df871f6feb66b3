/** Removes secrets from the API's own logs and spans, and from the reasons that callers give for a cancel. */
import type { ExecutionRequest } from '@cofferdam/contract'
import { compileRules, redactText } from '@cofferdam/executor'
import type { Store } from '@cofferdam/store'

const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/cfd_[0-9a-f]{40}/g, 'cfd_<redacted>'],
  [/\b(bearer|basic) +[A-Za-z0-9._~+/=-]{8,}/gi, '$1 <redacted>'],
  // user:password@ of a URL, as drivers put it into their messages.
  [/(:\/\/[^/\s:@]*):[^/\s@]+@/g, '$1:<redacted>@'],
]

/** `text` without API keys, Authorization values and passwords of URLs. */
export function redactSecrets(text: string): string {
  return SECRETS.reduce((clean, [pattern, replacement]) => clean.replaceAll(pattern, replacement), text)
}

/**
 * Replaces the caller's reason when Postgres is away, because the tenant's secret values are unknown then.
 * The cancel does not wait for Postgres.
 */
const UNKNOWN_REASON = 'cancelled'

/**
 * Creates a redactor of cancel reasons, which appear in results and audit rows. It removes secrets of known
 * shapes, the tenant's own values, and variables of the request that are named like secrets.
 */
export function createReasonRedactor(
  tenants: Pick<Store['tenants'], 'get'>,
): (request: ExecutionRequest, reason: string) => Promise<string> {
  // Concurrent calls share one read of the tenant: cancelling a whole tenant redacts many reasons at once.
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
      return UNKNOWN_REASON
    }
  }
}
