import { DEFAULT_TENANT_RULES, type Template, type TenantPolicy } from '@cofferdam/contract'
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
const PLAIN: PolicyFacts['request'] = { tenant_id: 'acme', environment: 'default-public', network: 'none' }
const USING: PolicyFacts['request'] = { ...PLAIN, template_id: 'coder' }

interface Row {
  when: string
  request?: PolicyFacts['request']
  tenant?: TenantPolicy | null
  template?: Template | null
  then: string
}

const TABLE: Row[] = [
  { when: 'nothing but a tenant is named', then: 'default-public' },
  { when: 'the template opts in', request: USING, template: TEMPLATE, then: 'default-public' },
  { when: 'the template is unknown', request: USING, then: 'policy_denied not_requested' },
  {
    when: 'the template does not opt in',
    request: USING,
    template: { ...TEMPLATE, sandbox: null },
    then: 'policy_denied not_requested',
  },
  {
    when: 'the template belongs to another tenant',
    request: USING,
    template: { ...TEMPLATE, tenant_id: 'globex' },
    then: 'policy_denied not_requested',
  },
  {
    when: 'the template is not the one that the request names',
    request: USING,
    template: { ...TEMPLATE, template_id: 'writer' },
    then: 'policy_denied not_requested',
  },
  {
    when: 'template and tenant are both unknown: the template is asked first',
    request: USING,
    tenant: null,
    then: 'policy_denied not_requested',
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
    when: 'the tenant is regulated',
    tenant: { ...TENANT, compliance_tier: 'regulated' },
    then: 'provisioning tenant_sandbox_disabled',
  },
  {
    when: 'the tenant is under HIPAA',
    tenant: { ...TENANT, compliance_tier: 'hipaa' },
    then: 'provisioning tenant_sandbox_disabled',
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
  it.each(TABLE)('$then when $when', ({ request = PLAIN, tenant = TENANT, template = null, then }) => {
    const decision = decidePolicy({ request, tenant, template })
    expect(decision.allowed ? decision.environment : `${decision.ending} ${decision.reason}`).toBe(then)
    if (!decision.allowed) expect(decision.message).toMatch(/^[A-Z].*\.$/)
  })
})
