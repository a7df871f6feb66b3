/** Which template holds for an execution: what an operator decided comes before what the caller names. */
import type { ExecutionRequest, TenantPolicy } from '@cofferdam/contract'

/**
 * The id of the template that the execution runs under: the one that its agent is bound to, else the one that
 * it names; undefined for none. `tenant` null or another's binds nobody.
 */
export function templateInForce(
  tenant: TenantPolicy | null,
  request: Pick<ExecutionRequest, 'tenant_id' | 'agent_id' | 'template_id'>,
): string | undefined {
  const agents = tenant?.tenant_id === request.tenant_id ? tenant.templates.agents : {}
  return Object.hasOwn(agents, request.agent_id) ? agents[request.agent_id] : request.template_id
}
