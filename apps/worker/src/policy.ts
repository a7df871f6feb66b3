/** What policy says about an execution at the moment when it would run. */
import { decidePolicy, effectivePolicy, type Environment } from '@cofferdam/admission'
import type { TenantPolicy } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import type { PolicyFacts } from './policy-cache.ts'
import type { WorkerDeps } from './worker-deps.ts'

/** The policy under which an allowed execution runs. */
export interface PolicyInForce {
  allowed: true
  /** With the template's settings folded in. */
  tenant: TenantPolicy
  environment: Environment
  /** The template in force, whatever the request names. */
  templateId: string | undefined
  retentionDays: number
}

export interface PolicyRefusal {
  allowed: false
  ending: 'provisioning' | 'policy_denied'
  /** A reason of `decidePolicy`, or `policy_unavailable`. */
  reason: string
  /** Public text. */
  message: string
  templateId: string | undefined
  /** A refusal is kept only as long as the execution would have been. */
  retentionDays: number
}

/** Reads tenant and template, and decides. Refuses when neither Postgres nor a cached copy can be read. */
export async function readPolicy(taken: Taken, deps: WorkerDeps): Promise<PolicyInForce | PolicyRefusal> {
  const { request } = taken
  try {
    const facts = await deps.policies.read(request)
    const { tenant, template, templateId } = facts
    const decision = decidePolicy({ request, tenant, template, canEncrypt: deps.canEncrypt })
    const effective = decision.allowed ? decision.tenant : effectiveTenant(facts)
    const retentionDays = effective?.retention_days ?? deps.defaultRetentionDays
    return { ...decision, templateId, retentionDays }
  } catch (error) {
    deps.logger.error({ err: error, execution_id: taken.executionId }, 'tenant policy cannot be read')
    return {
      allowed: false,
      ending: 'provisioning',
      reason: 'policy_unavailable',
      message: 'The tenant policy cannot be read now; nothing runs without it.',
      templateId: request.template_id,
      retentionDays: deps.defaultRetentionDays,
    }
  }
}

/** The tenant's policy with the template's settings folded in. Null when there is no such tenant. */
export function effectiveTenant({
  tenant,
  template,
}: Pick<PolicyFacts, 'tenant' | 'template'>): TenantPolicy | null {
  if (tenant === null) return null
  return effectivePolicy(tenant, template?.tenant_id === tenant.tenant_id ? template.sandbox : null)
}
