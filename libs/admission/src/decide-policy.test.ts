import { readFileSync } from 'node:fs'
import {
  DEFAULT_TENANT_RULES,
  limitsSchema,
  parse,
  templateSchema,
  type Template,
  type TenantPolicy,
} from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { decidePolicy, type PolicyFacts } from './decide-policy.ts'

const TENANT: TenantPolicy = {
  tenant_id: 'acme',
  sandbox_enabled: true,
  compliance_tier: 'standard',
  min_isolation: 'container',
  environments: ['default-public', 'internal-only'],
  retention_days: 30,
  redact: [],
  ...DEFAULT_TENANT_RULES,
}
const TEMPLATE: Template = {
  template_id: 'coder',
  tenant_id: 'acme',
  sandbox: { environment: 'default-public' },
}
const INSIDE: Template = { ...TEMPLATE, sandbox: { environment: 'internal-only' } }
/** The settings that regulated tenants need, as in examples/regulated-template.json. */
const SAFE: Template = parse(
  templateSchema,
  {
    tenant_id: 'acme',
    template_id: 'coder',
    ...(JSON.parse(
      readFileSync(new URL('../../../examples/regulated-template.json', import.meta.url), 'utf8'),
    ) as object),
  },
  'the example',
)
const REGULATED: TenantPolicy = { ...TENANT, compliance_tier: 'regulated' }
const safeBut = (settings: Partial<NonNullable<Template['sandbox']>>): Template => ({
  ...SAFE,
  sandbox: SAFE.sandbox === null ? null : { ...SAFE.sandbox, ...settings },
})
const PLAIN: PolicyFacts['request'] = {
  tenant_id: 'acme',
  agent_id: 'agent-1',
  environment: 'default-public',
  network: 'none',
  program: { type: 'command', shell: 'ls | rm x' },
  limits: limitsSchema.parse({}),
}
const LARGE = { ...PLAIN, limits: limitsSchema.parse({ artifact_bytes: 20_000_000 }) }
const USING: PolicyFacts['request'] = { ...PLAIN, template_id: 'coder' }
const REQUIRING: TenantPolicy = { ...TENANT, templates: { required: true, agents: {} } }
const BINDING: TenantPolicy = { ...TENANT, templates: { required: true, agents: { 'agent-1': 'strict' } } }
const STRICT: Template = {
  ...TEMPLATE,
  template_id: 'strict',
  sandbox: { environment: 'internal-only', network: 'none' },
}

interface Row {
  when: string
  request?: PolicyFacts['request']
  tenant?: TenantPolicy | null
  template?: Template | null
  canEncrypt?: boolean
  then: string
  says?: RegExp
}

const TABLE: Row[] = [
  { when: 'nothing but a tenant is named', then: 'default-public' },
  { when: 'the template opts in', request: USING, template: TEMPLATE, then: 'default-public' },
  { when: 'the template is unknown', request: USING, then: 'provisioning not_requested' },
  {
    when: 'the template does not opt in',
    request: USING,
    template: { ...TEMPLATE, sandbox: null },
    then: 'provisioning not_requested',
  },
  {
    when: 'the template belongs to another tenant',
    request: USING,
    template: { ...TEMPLATE, tenant_id: 'globex' },
    then: 'provisioning not_requested',
  },
  {
    when: 'the template is not the one that the request names',
    request: USING,
    template: { ...TEMPLATE, template_id: 'writer' },
    then: 'provisioning not_requested',
  },
  {
    when: 'template and tenant are both unknown: the template is asked first',
    request: USING,
    tenant: null,
    then: 'provisioning not_requested',
  },
  {
    when: 'the tenant requires a template and the request names none',
    tenant: REQUIRING,
    then: 'policy_denied template_required',
    says: /name one in template_id/,
  },
  {
    when: 'the tenant requires a template and it is named',
    tenant: REQUIRING,
    request: USING,
    template: TEMPLATE,
    then: 'default-public',
  },
  {
    when: 'the agent is bound, and the request names no template: the bound one holds',
    tenant: BINDING,
    template: STRICT,
    request: { ...PLAIN, network: 'public' },
    then: 'policy_denied network_not_allowed',
  },
  {
    when: 'the agent is bound and the request names that template',
    tenant: BINDING,
    template: STRICT,
    request: { ...PLAIN, template_id: 'strict' },
    then: 'internal-only',
  },
  {
    when: 'the agent is bound and the request names another template',
    tenant: BINDING,
    template: TEMPLATE,
    request: USING,
    then: 'policy_denied template_bound',
  },
  {
    when: 'another agent is bound, and nothing is required',
    tenant: { ...BINDING, templates: { ...BINDING.templates, required: false } },
    request: { ...PLAIN, agent_id: 'agent-2' },
    then: 'default-public',
  },
  {
    when: 'the agent is bound to a template that does not opt in',
    tenant: BINDING,
    template: { ...STRICT, sandbox: null },
    then: 'provisioning not_requested',
  },
  { when: 'the tenant is unknown', tenant: null, then: 'provisioning tenant_unknown' },
  {
    when: "the policy is another tenant's",
    tenant: { ...TENANT, tenant_id: 'globex' },
    then: 'provisioning tenant_unknown',
  },
  {
    when: 'the tenant is switched off',
    tenant: { ...TENANT, sandbox_enabled: false },
    then: 'provisioning tenant_sandbox_disabled',
  },
  {
    when: 'the tenant is regulated and names no template',
    tenant: REGULATED,
    then: 'provisioning tenant_sandbox_disabled',
    says: /missing: a template with sandbox settings\.$/,
  },
  {
    when: 'the tenant is under HIPAA and its template forces nothing',
    tenant: { ...TENANT, compliance_tier: 'hipaa' },
    request: USING,
    template: TEMPLATE,
    then: 'provisioning tenant_sandbox_disabled',
    says: /hipaa .* missing: network "none", min_isolation "gvisor" or "microvm", retention_days of at most 7, encrypt_outputs true\.$/,
  },
  {
    when: 'the tenant is regulated and its template forces all that is needed',
    tenant: REGULATED,
    request: USING,
    template: SAFE,
    then: 'internal-only',
  },
  {
    when: 'the tenant is under HIPAA and its template forces all that is needed',
    tenant: { ...TENANT, compliance_tier: 'hipaa' },
    request: USING,
    template: safeBut({ min_isolation: 'microvm-emulated', retention_days: 1 }),
    then: 'internal-only',
  },
  {
    when: 'a regulated tenant installs packages under a safe template',
    tenant: { ...REGULATED, packages: { pypi: ['*'], npm: [] } },
    request: { ...USING, program: { type: 'install' } },
    template: SAFE,
    then: 'policy_denied network_not_allowed',
    says: /in the names of packages/,
  },
  {
    when: 'the template of a regulated tenant leaves a network open',
    tenant: { ...REGULATED, network: 'none' },
    request: USING,
    template: safeBut({ network: { allow: ['a.example'] } }),
    then: 'provisioning tenant_sandbox_disabled',
    says: /missing: network "none"\.$/,
  },
  {
    when: 'the template of a regulated tenant is content with a container',
    tenant: REGULATED,
    request: USING,
    template: safeBut({ min_isolation: 'container' }),
    then: 'provisioning tenant_sandbox_disabled',
    says: /missing: min_isolation "gvisor" or "microvm"\.$/,
  },
  {
    when: 'the template of a regulated tenant keeps things for eight days',
    tenant: REGULATED,
    request: USING,
    template: safeBut({ retention_days: 8 }),
    then: 'provisioning tenant_sandbox_disabled',
    says: /missing: retention_days of at most 7\.$/,
  },
  {
    when: 'the tenant is regulated and switched off',
    tenant: { ...REGULATED, sandbox_enabled: false },
    request: USING,
    template: SAFE,
    then: 'provisioning tenant_sandbox_disabled',
    says: /^Sandboxing is switched off/,
  },
  {
    when: 'the tenant is regulated and this worker has no key',
    tenant: REGULATED,
    request: USING,
    template: SAFE,
    canEncrypt: false,
    then: 'provisioning encryption_unavailable',
  },
  {
    when: 'a standard tenant wants encryption and this worker has no key',
    tenant: { ...TENANT, encrypt_outputs: true },
    canEncrypt: false,
    then: 'provisioning encryption_unavailable',
  },
  { when: 'nobody wants encryption and there is no key', canEncrypt: false, then: 'default-public' },
  {
    when: 'the template allows no network and the request wants one',
    request: { ...USING, network: 'public' },
    template: { ...TEMPLATE, sandbox: { environment: 'default-public', network: 'none' } },
    then: 'policy_denied network_not_allowed',
  },
  {
    when: 'a command of the program is blocked',
    tenant: { ...TENANT, commands: { allow: null, block: ['rm'] } },
    then: 'policy_denied command_blocked',
    says: /^Command "rm" is blocked for the tenant by the rule "rm"\.$/,
  },
  {
    when: 'a command of the program is on no list of allowed ones',
    tenant: { ...TENANT, commands: { allow: ['ls'], block: [] } },
    then: 'policy_denied command_blocked',
    says: /^Command "rm" is not on/,
  },
  {
    when: 'every command of the program is allowed',
    tenant: { ...TENANT, commands: { allow: ['ls', 'rm'], block: ['curl'] } },
    then: 'default-public',
  },
  {
    when: 'the request wants larger artifacts than the policy allows',
    request: LARGE,
    then: 'policy_denied artifact_limits_not_allowed',
    says: /limits\.artifact_bytes is 20000000 and may be 8388608 at most/,
  },
  {
    when: 'the policy allows the artifacts that the request wants',
    tenant: { ...TENANT, max_artifact_bytes: 20_000_000 },
    request: LARGE,
    then: 'default-public',
  },
  {
    when: 'a tenant that is switched off has no environment either: the switch is named',
    tenant: { ...TENANT, sandbox_enabled: false, environments: [] },
    then: 'provisioning tenant_sandbox_disabled',
  },
  {
    when: 'no environment is provisioned',
    tenant: { ...TENANT, environments: [] },
    then: 'provisioning interpreter_not_ready',
  },
  {
    when: 'only the other environment is provisioned',
    tenant: { ...TENANT, environments: ['internal-only'] },
    then: 'provisioning interpreter_not_ready',
  },
  {
    when: "the template's environment is not provisioned, though the request's is",
    request: USING,
    template: INSIDE,
    tenant: { ...TENANT, environments: ['default-public'] },
    then: 'provisioning interpreter_not_ready',
  },
  {
    when: 'the template fixes the environment and the request says nothing of it',
    request: USING,
    template: INSIDE,
    then: 'internal-only',
  },
  {
    when: 'template and request name the same environment',
    request: { ...USING, environment: 'internal-only' },
    template: INSIDE,
    then: 'internal-only',
  },
  {
    when: 'the request names another environment than the template',
    request: { ...USING, environment: 'internal-only' },
    template: TEMPLATE,
    then: 'policy_denied environment_fixed_by_template',
  },
  {
    when: 'the request chooses the inside without a template',
    request: { ...PLAIN, environment: 'internal-only' },
    then: 'internal-only',
  },
  {
    when: 'the inside is asked for the public network',
    request: { ...PLAIN, environment: 'internal-only', network: 'public' },
    then: 'policy_denied network_not_allowed',
  },
  {
    when: 'the inside is asked for an allow-list',
    request: { ...PLAIN, environment: 'internal-only', network: { allow: ['pypi.org'] } },
    then: 'policy_denied network_not_allowed',
  },
  {
    when: 'a template puts a request with a network inside',
    request: { ...USING, network: 'public' },
    template: INSIDE,
    then: 'policy_denied network_not_allowed',
  },
  {
    when: 'the public environment is asked for the public network',
    request: { ...PLAIN, network: 'public' },
    then: 'default-public',
  },
]

describe('decidePolicy', () => {
  it.each(TABLE)(
    '$then when $when',
    ({ request = PLAIN, tenant = TENANT, template = null, canEncrypt = true, then, says }) => {
      const decision = decidePolicy({ request, tenant, template, canEncrypt })
      expect(decision.allowed ? decision.environment : `${decision.ending} ${decision.reason}`).toBe(then)
      if (!decision.allowed) expect(decision.message).toMatch(/^[A-Z].*\.$/)
      if (says !== undefined) expect(decision.allowed ? '' : decision.message).toMatch(says)
    },
  )

  it("returns the tenant's policy tightened by the template's settings", () => {
    expect(
      decidePolicy({ request: USING, tenant: REGULATED, template: SAFE, canEncrypt: true }),
    ).toMatchObject({
      tenant: { network: 'none', min_isolation: 'gvisor', retention_days: 7, encrypt_outputs: true },
    })
  })
})
