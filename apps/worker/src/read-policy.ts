/** What policy says about an execution at the moment it would run. */
import { decidePolicy, effectivePolicy, type Environment } from '@cofferdam/admission'
import type { Template, TenantPolicy } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import type { PolicyRefusal } from './refuse.ts'
import type { WorkerDeps } from './worker-deps.ts'

export type PolicyNow =
  | {
      allowed: true
      /** With the template's settings folded in. */ tenant: TenantPolicy
      environment: Environment
      /** Of the template in force, whatever the request names. */
      templateId: string | undefined
      retentionDays: number
    }
  | (PolicyRefusal & { allowed: false; retentionDays: number; templateId: string | undefined })

/** Reads tenant and template and decides. With Postgres and every copy away nothing may run: fail closed. */
export async function readPolicy(taken: Taken, deps: WorkerDeps): Promise<PolicyNow> {
  const { request } = taken
  try {
    const { tenant, template, templateId } = await deps.policies.read(request)
    const decision = decidePolicy({ request, tenant, template, canEncrypt: deps.canEncrypt })
    if (decision.allowed) return { ...decision, templateId, retentionDays: decision.tenant.retention_days }
    const retentionDays = retentionOf(tenant, template) ?? deps.defaultRetentionDays
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

/** A refusal is kept no longer than what it refused would have been. */
export function retentionOf(tenant: TenantPolicy | null, template: Template | null): number | null {
  if (tenant === null) return null
  const sandbox = template?.tenant_id === tenant.tenant_id ? template.sandbox : null
  return effectivePolicy(tenant, sandbox).retention_days
}
