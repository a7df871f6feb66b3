/**
 * Policy: may this execution run at all? One pure function. A worker reads its facts when it takes the
 * execution, not when it was enqueued, so that nothing runs after its tenant was switched off.
 *
 *   template (the agent's own, else the one named) ─► tenant ─► tier ─► environments agree ─►
 *   network fits the environment ─► the environment is provisioned ─►
 *   outputs can be encrypted if they must be ─► the commands are allowed ─►
 *   artifact limits are within the tenant's
 */
import {
  assertNever,
  type ExecutionRequest,
  type Network,
  type Template,
  type TenantPolicy,
} from '@cofferdam/contract'
import { judgeCommand } from './command-policy/judge-command.ts'
import { effectivePolicy } from './effective-policy.ts'
import { missingForRegulated } from './regulated-tier.ts'

export interface PolicyFacts {
  request: Pick<
    ExecutionRequest,
    'tenant_id' | 'agent_id' | 'template_id' | 'environment' | 'network' | 'program' | 'limits'
  >
  /** Null when there is no such tenant. */
  tenant: TenantPolicy | null
  /** The template in force (`templateInForce`). Null when there is none of that ID, or none is in force. */
  template: Template | null
  /** Whether this worker has a key to encrypt what it stores. */
  canEncrypt: boolean
}

export type PolicyReason =
  | 'not_requested'
  | 'template_required'
  | 'template_bound'
  | 'tenant_unknown'
  | 'tenant_sandbox_disabled'
  | 'environment_fixed_by_template'
  | 'network_not_allowed'
  | 'interpreter_not_ready'
  | 'encryption_unavailable'
  | 'command_blocked'
  | 'artifact_limits_not_allowed'

export type Environment = ExecutionRequest['environment']

export type PolicyDecision =
  | {
      allowed: true
      /** Where it runs: the template's environment, else the request's. */
      environment: Environment
      /** The policy under which the execution runs: the tenant's, tightened by the template's. */
      tenant: TenantPolicy
    }
  | {
      allowed: false
      ending: 'policy_denied' | 'provisioning'
      reason: PolicyReason
      /** Public. */
      message: string
    }

/**
 * An install reaches the package proxy even under network `none`. Code that it runs could send data out in
 * the names of packages that it requests.
 */
const NO_INSTALLS =
  'Tenants of a regulated tier install no packages: code that an installation runs could send data out in ' +
  'the names of packages. Put the packages into the sandbox image.'

/**
 * The environment of a request that names none (contract: request.ts). A template may replace only this one.
 */
const UNSAID: Environment = 'default-public'

/** Decides whether the execution may run and in which environment. Throws nothing. */
export function decidePolicy(facts: PolicyFacts): PolicyDecision {
  const { request, tenant } = facts
  const wanted = templateInForce(tenant, request)
  if (request.template_id !== undefined && wanted !== request.template_id) return refuse('template_bound')
  const template = templateOf(facts, wanted)
  if (template === 'not_requested') return refuse('not_requested')
  if (template === null && tenant?.templates.required === true) return refuse('template_required')

  if (tenant === null || tenant.tenant_id !== request.tenant_id) return refuse('tenant_unknown')
  if (!tenant.sandbox_enabled) return refuse('tenant_sandbox_disabled')
  if (tenant.compliance_tier !== 'standard') {
    const missing = missingForRegulated(template)
    if (missing.length > 0) return refuse('tenant_sandbox_disabled', tierMessage(tenant, missing))
    if (request.program.type === 'install') return refuse('network_not_allowed', NO_INSTALLS)
  }

  const environment = template?.environment ?? request.environment
  if (environment !== request.environment && request.environment !== UNSAID)
    return refuse('environment_fixed_by_template')
  if (!networkFits(environment, request.network)) return refuse('network_not_allowed')
  if (!tenant.environments.includes(environment)) return refuse('interpreter_not_ready')
  const policy = effectivePolicy(tenant, template)
  if (policy.network === 'none' && request.network !== 'none')
    return refuse('network_not_allowed', 'No network is allowed here; ask for network "none".')
  if (policy.encrypt_outputs && !facts.canEncrypt) return refuse('encryption_unavailable')
  const judgement = judgeCommand(request.program, policy.commands)
  if (!judgement.allowed) return refuse('command_blocked', judgement.message)
  const beyond = beyondPolicy(request.limits, policy)
  if (beyond !== null) return refuse('artifact_limits_not_allowed', beyond)
  return { allowed: true, environment, tenant: policy }
}

/**
 * The ID of the template that the execution runs under, or undefined. The template that an operator bound the
 * agent to comes before the one that the request names. A `tenant` that is not the request's own binds
 * nothing.
 */
export function templateInForce(
  tenant: TenantPolicy | null,
  request: Pick<ExecutionRequest, 'tenant_id' | 'agent_id' | 'template_id'>,
): string | undefined {
  const agents = tenant?.tenant_id === request.tenant_id ? tenant.templates.agents : {}
  return Object.hasOwn(agents, request.agent_id) ? agents[request.agent_id] : request.template_id
}

/** Says which artifact limit of a request exceeds its tenant's policy. Null if none does. */
function beyondPolicy(limits: ExecutionRequest['limits'], policy: TenantPolicy): string | null {
  for (const name of ['artifact_bytes', 'artifacts_total_bytes', 'artifact_count'] as const) {
    const most = policy[`max_${name}`]
    if (limits[name] > most)
      return (
        `The request's limits.${name} is ${limits[name]} and may be ${most} at most; ` +
        `an operator can raise max_${name} of the tenant.`
      )
  }
  return null
}

const tierMessage = (tenant: TenantPolicy, missing: readonly string[]): string =>
  `The compliance tier ${tenant.compliance_tier} runs code only with a template that forces ` +
  'what keeps it safe; ' +
  `missing: ${missing.join(', ')}.`

/** The settings of the template in force, or null. A template of another tenant does not count. */
function templateOf(
  { request, template }: PolicyFacts,
  wanted: string | undefined,
): NonNullable<Template['sandbox']> | null | 'not_requested' {
  if (wanted === undefined) return null
  const mine =
    template !== null && template.template_id === wanted && template.tenant_id === request.tenant_id
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
  // The ending is `provisioning` (agents see SandboxProvisioning), because without an opt-in there is no
  // sandbox.
  not_requested: {
    ending: 'provisioning',
    message: 'The template is unknown or does not opt into sandboxing.',
  },
  template_required: {
    ending: 'policy_denied',
    message: 'The tenant runs code only under a template; name one in template_id.',
  },
  template_bound: {
    ending: 'policy_denied',
    message: 'The agent is bound to another template; leave template_id out of the request.',
  },
  tenant_unknown: { ending: 'provisioning', message: 'There is no such tenant.' },
  tenant_sandbox_disabled: {
    ending: 'provisioning',
    message: 'Sandboxing is switched off for the tenant.',
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
  encryption_unavailable: {
    ending: 'provisioning',
    message: 'The outputs have to be stored encrypted, and this worker has no key for it.',
  },
  artifact_limits_not_allowed: {
    ending: 'policy_denied',
    message: 'The limits of artifacts are above what the tenant may ask for.',
  },
  command_blocked: {
    ending: 'policy_denied',
    message: "The tenant's command rules do not allow the program.",
  },
}

const refuse = (reason: PolicyReason, message = REFUSALS[reason].message): PolicyDecision => ({
  allowed: false,
  reason,
  ending: REFUSALS[reason].ending,
  message,
})
