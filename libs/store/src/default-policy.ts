/** Policy and caps of a new tenant. */
import {
  DEFAULT_TENANT_CAPS,
  type TenantCaps,
  type TenantPolicy,
  DEFAULT_TENANT_RULES,
} from '@cofferdam/contract'

/**
 * Sandboxing on, standard tier, both environments, 30 days of retention, nothing extra to redact, public
 * network on request, no packages, every command, no sessions of runs. Isolation is at least a jail: `none`
 * and `process` need an explicit policy.
 */
export function defaultPolicy(tenantId: string): TenantPolicy {
  return {
    tenant_id: tenantId,
    sandbox_enabled: true,
    compliance_tier: 'standard',
    min_isolation: 'jail',
    environments: ['default-public', 'internal-only'],
    retention_days: 30,
    redact: [],
    ...DEFAULT_TENANT_RULES,
  }
}

export const defaultCaps = (): TenantCaps => ({ ...DEFAULT_TENANT_CAPS, agents: {} })
