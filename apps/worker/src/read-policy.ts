/** What policy says about an execution at the moment it would run. */
import { decidePolicy, type Environment } from '@cofferdam/admission'
import type { TenantPolicy } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import type { PolicyRefusal } from './refuse.ts'
import type { WorkerDeps } from './worker-deps.ts'

export type PolicyNow =
  | { allowed: true; tenant: TenantPolicy; environment: Environment; retentionDays: number }
  | (PolicyRefusal & { allowed: false; retentionDays: number })

/** Reads tenant and template and decides. With Postgres and every copy away nothing may run: fail closed. */
export async function readPolicy(taken: Taken, deps: WorkerDeps): Promise<PolicyNow> {
  const { request } = taken
  try {
    const { tenant, template } = await deps.policies.read(request.tenant_id, request.template_id)
    const retentionDays = tenant?.retention_days ?? deps.defaultRetentionDays
    const decision = decidePolicy({ request, tenant, template })
    if (!decision.allowed) return { ...decision, retentionDays }
    if (tenant === null) throw new Error('decidePolicy allowed an unknown tenant')
    return { ...decision, tenant, retentionDays }
  } catch (error) {
    deps.logger.error({ err: error, execution_id: taken.executionId }, 'tenant policy cannot be read')
    return {
      allowed: false,
      ending: 'provisioning',
      reason: 'policy_unavailable',
      message: 'The tenant policy cannot be read now; nothing runs without it.',
      retentionDays: deps.defaultRetentionDays,
    }
  }
}
