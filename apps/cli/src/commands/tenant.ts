import { parse, tenantCapsSchema, templateSchema, tenantPolicySchema } from '@cofferdam/contract'
import { z } from 'zod'
import { openApi } from '../api-connection.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { findVerb } from '../find-verb.ts'
import { numberFlag } from '../parse-command-line.ts'
import { namesHalf, POLICY_FLAGS, policyOf, templateOf } from '../policy-flags.ts'
import { showChanges } from '../show-changes.ts'
import { table } from '../table.ts'
import type { TenantCall } from '../tenant-call.ts'
import { keys, newCallbackSecret, newKey, revokeKey } from '../tenant-keys.ts'
import type { Terminal } from '../terminal.ts'
import { UsageError } from '../usage-error.ts'

const tenantSchema = z.object({ policy: tenantPolicySchema, caps: tenantCapsSchema })
const tenantPageSchema = z.object({ tenants: z.array(tenantSchema), next_cursor: z.string().nullable() })
const templatesSchema = z.object({ templates: z.array(templateSchema) })
type Tenant = z.infer<typeof tenantSchema>

const VERBS: Record<string, { words: string[]; run(call: TenantCall): Promise<void> }> = {
  list: { words: [], run: list },
  create: { words: ['TENANT'], run: create },
  show: { words: ['TENANT'], run: show },
  events: { words: ['TENANT'], run: events },
  set: { words: ['TENANT'], run: set },
  templates: { words: ['TENANT'], run: templates },
  'set-template': { words: ['TENANT', 'TEMPLATE'], run: setTemplate },
  keys: { words: ['TENANT'], run: keys },
  'new-key': { words: ['TENANT'], run: newKey },
  'revoke-key': { words: ['TENANT', 'KEY-ID'], run: revokeKey },
  'new-callback-secret': { words: ['TENANT'], run: newCallbackSecret },
}

export const command: Command = {
  usage:
    'list | create ID | show ID | events ID | set ID [flags] | templates ID | set-template ID TEMPLATE [flags] | keys ID | new-key ID | revoke-key ID KEY-ID | new-callback-secret ID',
  details:
    'Needs an admin key. An API key is shown once, when it is made. A list is set whole, separated by commas.\n' +
    'set-template replaces a template: what is left out is not stricter than the tenant.',
  flags: {
    ...POLICY_FLAGS,
    limit: { type: 'string', value: 'N', description: 'events: how many, newest first (default: 50)' },
    template: {
      type: 'string',
      value: 'ID',
      description: 'new-key: what comes with the key runs under this template',
    },
    label: { type: 'string', value: 'TEXT', description: 'new-key: what the key is for (default: cli)' },
    ...API_FLAGS,
  },
  words: { min: 1, max: 3 },
  examples: [
    'cofferdam tenant create acme --min-isolation container',
    'cofferdam tenant new-key acme --label "build agents"',
    'cofferdam tenant set acme --enabled false',
    'cofferdam tenant events acme --limit 10',
    'cofferdam tenant set acme --block-commands "curl,wget,git push"',
    'cofferdam tenant set-template acme clinic --environment internal-only --network none \\\n' +
      '    --min-isolation gvisor --retention-days 7 --encrypt-outputs true',
  ],
  async run(context, line) {
    const [name = '', ...words] = line.words
    const verb = findVerb('tenant', VERBS, name)
    if (words.length !== verb.words.length)
      throw new UsageError(`Usage: cofferdam tenant ${[name, ...verb.words].join(' ')}`)
    const path = `/v1/tenants/${encodeURIComponent(words[0] ?? '')}`
    await verb.run({ api: openApi(context, line), path, words, line, terminal: context.terminal })
    return EXIT.ok
  },
}

function print({ policy, caps }: Tenant, terminal: Terminal): void {
  terminal.value({ policy, caps })
  terminal.line(terminal.style('bold', policy.tenant_id))
  for (const [name, value] of Object.entries(policy))
    if (name !== 'tenant_id' && name !== 'redact')
      terminal.line(`  ${name.padEnd(16)} ${JSON.stringify(value)}`)
  terminal.line(`  ${'redact'.padEnd(16)} ${policy.redact.length} literal values`)
  terminal.line(terminal.style('dim', `  caps: ${JSON.stringify(caps)}`))
}

async function list({ api, terminal }: TenantCall): Promise<void> {
  const tenants: Tenant[] = []
  let cursor: string | null = null
  do {
    const from: string = cursor === null ? '' : `?cursor=${encodeURIComponent(cursor)}`
    const page = parse(tenantPageSchema, await api.call('GET', `/v1/tenants${from}`), 'the answer')
    tenants.push(...page.tenants)
    cursor = page.next_cursor
  } while (cursor !== null)
  terminal.value(tenants)
  const rows = tenants.map(({ policy }) => [
    policy.tenant_id,
    policy.sandbox_enabled ? 'on' : 'off',
    policy.compliance_tier,
    policy.min_isolation,
    policy.retention_days,
  ])
  for (const text of table(['TENANT', 'SANDBOX', 'TIER', 'MIN ISOLATION', 'RETENTION'], rows))
    terminal.line(text)
}

async function create({ api, words, line, terminal }: TenantCall): Promise<void> {
  const made = await api.call('POST', '/v1/tenants', { tenant_id: words[0], ...policyOf(line) })
  print(parse(tenantSchema, made, 'the answer'), terminal)
}

async function show({ api, path, terminal }: TenantCall): Promise<void> {
  print(parse(tenantSchema, await api.call('GET', path), 'the answer'), terminal)
}

async function events({ api, path, line, terminal }: TenantCall): Promise<void> {
  const limit = numberFlag(line, 'limit', { min: 1, max: 500 }) ?? 50
  showChanges(await api.call('GET', `${path}/policy/events?limit=${limit}`), terminal)
}

async function set(call: TenantCall): Promise<void> {
  const { api, path, line } = call
  const now = namesHalf(line)
    ? parse(tenantSchema, await api.call('GET', path), 'the answer').policy
    : undefined
  const changes = policyOf(line, now)
  if (Object.keys(changes).length === 0)
    throw new UsageError(`Nothing to set. Name at least one of --${Object.keys(POLICY_FLAGS).join(', --')}.`)
  await api.call('PATCH', `${path}/policy`, changes)
  await show(call)
}

async function templates({ api, path, terminal }: TenantCall): Promise<void> {
  const found = parse(templatesSchema, await api.call('GET', `${path}/templates`), 'the answer').templates
  terminal.value(found)
  const rows = found.map(({ template_id, sandbox }) => [template_id, JSON.stringify(sandbox)])
  for (const text of table(['TEMPLATE', 'SANDBOX'], rows)) terminal.line(text)
}

async function setTemplate({ api, path, words: [, id], line, terminal }: TenantCall): Promise<void> {
  const asked = { sandbox: templateOf(line) }
  const answer = await api.call('PUT', `${path}/templates/${encodeURIComponent(id ?? '')}`, asked)
  const put = parse(templateSchema, answer, 'the answer')
  terminal.value(put)
  terminal.line(`${put.template_id}: ${JSON.stringify(put.sandbox)}`)
}
