/**
 * Policy: may this execution run at all? One pure function over facts that are read when a worker takes the execution,
 * not when it was enqueued: what was queued before a tenant was switched off must not run after.
 *
 *   template ─► tenant ─► environment named by one side only ─► network fits it ─► a place to run is provisioned
 *
 * Order and reasons: agentcore-and-thinkwork.md §10.1.
 */
import {
  assertNever,
  type ExecutionRequest,
  type Network,
  type Template,
  type TenantPolicy,
} from '@cofferdam/contract'

export interface PolicyFacts {
  request: Pick<ExecutionRequest, 'tenant_id' | 'template_id' | 'environment' | 'network'>
  /** Null when there is no such tenant. */
  tenant: TenantPolicy | null
  /** The template that the request names; null when it names none or there is no such template. */
  template: Template | null
}

export type PolicyReason =
  | 'not_requested'
  | 'tenant_unknown'
  | 'tenant_sandbox_disabled'
  | 'environment_fixed_by_template'
  | 'network_not_allowed'
  | 'interpreter_not_ready'

export type Environment = ExecutionRequest['environment']

export type PolicyDecision =
  | {
      allowed: true
      /** Where it runs: the template's environment, else the request's. */
      environment: Environment
    }
  | {
      allowed: false
      ending: 'policy_denied' | 'provisioning'
      reason: PolicyReason
      /** Public. */
      message: string
    }

/** What a request says when its caller said nothing (contract: request.ts); a template may narrow it silently. */
const UNSAID: Environment = 'default-public'

/** Decides whether the execution may run and in which environment. Throws nothing. */
export function decidePolicy(facts: PolicyFacts): PolicyDecision {
  const { request, tenant } = facts
  const template = templateOf(facts)
  if (template === 'not_requested') return refuse('not_requested')

  if (tenant === null || tenant.tenant_id !== request.tenant_id) return refuse('tenant_unknown')
  if (!tenant.sandbox_enabled || tenant.compliance_tier !== 'standard')
    return refuse('tenant_sandbox_disabled')

  const environment = template?.environment ?? request.environment
  if (environment !== request.environment && request.environment !== UNSAID)
    return refuse('environment_fixed_by_template')
  if (!networkFits(environment, request.network)) return refuse('network_not_allowed')
  if (!tenant.environments.includes(environment)) return refuse('interpreter_not_ready')
  return { allowed: true, environment }
}

/** The template's settings; null when the request names none. A template of another tenant is no template. */
function templateOf({
  request,
  template,
}: PolicyFacts): NonNullable<Template['sandbox']> | null | 'not_requested' {
  if (request.template_id === undefined) return null
  const mine =
    template !== null &&
    template.template_id === request.template_id &&
    template.tenant_id === request.tenant_id
  return mine && template.sandbox !== null ? template.sandbox : 'not_requested'
}

function networkFits(environment: Environment, network: Network): boolean {
  switch (environment) {
    case 'default-public':
      return true
    case 'internal-only':
      return network === 'none'
    default:
      return assertNever(environment)
  }
}

const REFUSALS: Record<PolicyReason, { ending: 'policy_denied' | 'provisioning'; message: string }> = {
  not_requested: {
    ending: 'policy_denied',
    message: 'The template is unknown or does not opt into sandboxing.',
  },
  tenant_unknown: { ending: 'provisioning', message: 'There is no such tenant.' },
  tenant_sandbox_disabled: {
    ending: 'provisioning',
    message: 'Sandboxing is switched off for the tenant, or its compliance tier does not allow it.',
  },
  environment_fixed_by_template: {
    ending: 'policy_denied',
    message: 'The template fixes the environment; leave environment out of the request.',
  },
  network_not_allowed: {
    ending: 'policy_denied',
    message: 'The internal-only environment has no network; ask for network "none".',
  },
  interpreter_not_ready: {
    ending: 'provisioning',
    message: 'The environment is not provisioned for the tenant yet; try again in 30 s.',
  },
}

const refuse = (reason: PolicyReason): PolicyDecision => ({ allowed: false, reason, ...REFUSALS[reason] })
