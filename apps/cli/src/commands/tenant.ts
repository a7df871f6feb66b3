import {
  apiKeyScopeSchema,
  ISOLATIONS,
  parse,
  tenantCapsSchema,
  templateSchema,
  tenantPolicySchema,
  type TenantPolicy,
} from '@cofferdam/contract'
import { z } from 'zod'
import { openApi, type ApiConnection } from '../api-connection.ts'
import { API_FLAGS, type Command, type CommandLine } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { findVerb } from '../find-verb.ts'
import { showChanges } from '../show-changes.ts'
import { numberFlag, textFlag } from '../parse-command-line.ts'
import { table } from '../table.ts'
import type { Terminal } from '../terminal.ts'
import { RULE_FLAGS, rulesOf, switchFlag, templateOf } from '../tenant-rules.ts'
import { UsageError } from '../usage-error.ts'

const tenantSchema = z.object({ policy: tenantPolicySchema, caps: tenantCapsSchema })
const tenantPageSchema = z.object({ tenants: z.array(tenantSchema), next_cursor: z.string().nullable() })
type Tenant = z.infer<typeof tenantSchema>
const keyMadeSchema = z.object({ id: z.string(), key: z.string() })
const keysSchema = z.object({
  keys: z.array(
    z.object({
      id: z.string(),
      scope: apiKeyScopeSchema,
      label: z.string(),
      created_at: z.string(),
      revoked_at: z.string().nullable(),
    }),
  ),
})

type Verb = (
  api: ApiConnection,
  words: readonly string[],
  line: CommandLine,
  terminal: Terminal,
) => Promise<void>

const VERBS: Record<string, { words: string[]; run: Verb }> = {
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
    enabled: { type: 'string', value: 'true|false', description: 'whether its code runs at all' },
    'min-isolation': {
      type: 'string',
      value: 'LEVEL',
      description: `never weaker than ${ISOLATIONS.join(' < ')}`,
    },
    'retention-days': {
      type: 'string',
      value: 'N',
      description: 'how long audit rows and outputs stay, 1 to 180',
    },
    'output-retention-days': {
      type: 'string',
      value: 'N',
      description:
        'how long full outputs and artifacts stay where that is shorter, 1 to 180 (off: as the rows)',
    },
    tier: { type: 'string', value: 'NAME', description: 'standard, regulated or hipaa' },
    ...RULE_FLAGS,
    limit: { type: 'string', value: 'N', description: 'events: how many, newest first (default: 50)' },
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
    await verb.run(openApi(context, line), words, line, context.terminal)
    return EXIT.ok
  },
}

const pathOf = (words: readonly string[]): string => `/v1/tenants/${encodeURIComponent(words[0] ?? '')}`

/** The policy fields that the flags name. */
export function policyOf(line: CommandLine, now?: TenantPolicy): Record<string, unknown> {
  const fields = {
    sandbox_enabled: switchFlag(line, 'enabled'),
    min_isolation: textFlag(line, 'min-isolation'),
    retention_days: numberFlag(line, 'retention-days', { min: 1, max: 180 }),
    output_retention_days:
      textFlag(line, 'output-retention-days') === 'off'
        ? null
        : numberFlag(line, 'output-retention-days', { min: 1, max: 180 }),
    compliance_tier: textFlag(line, 'tier'),
    ...rulesOf(line, now),
  }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
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

async function list(
  api: ApiConnection,
  _: readonly string[],
  __: CommandLine,
  terminal: Terminal,
): Promise<void> {
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

async function create(
  api: ApiConnection,
  words: readonly string[],
  line: CommandLine,
  terminal: Terminal,
): Promise<void> {
  const made = await api.call('POST', '/v1/tenants', { tenant_id: words[0], ...policyOf(line) })
  print(parse(tenantSchema, made, 'the answer'), terminal)
}

async function show(
  api: ApiConnection,
  words: readonly string[],
  _: CommandLine,
  terminal: Terminal,
): Promise<void> {
  print(parse(tenantSchema, await api.call('GET', pathOf(words)), 'the answer'), terminal)
}

async function events(
  api: ApiConnection,
  words: readonly string[],
  line: CommandLine,
  terminal: Terminal,
): Promise<void> {
  const limit = numberFlag(line, 'limit', { min: 1, max: 500 }) ?? 50
  showChanges(await api.call('GET', `${pathOf(words)}/policy/events?limit=${limit}`), terminal)
}

async function set(
  api: ApiConnection,
  words: readonly string[],
  line: CommandLine,
  terminal: Terminal,
): Promise<void> {
  const needsNow = ['allow-commands', 'block-commands', 'pypi-packages', 'npm-packages'].some(
    (name) => textFlag(line, name) !== undefined,
  )
  // A list is one half of a field; the other half stays as it is.
  const now = needsNow
    ? parse(tenantSchema, await api.call('GET', pathOf(words)), 'the answer').policy
    : undefined
  const changes = policyOf(line, now)
  if (Object.keys(changes).length === 0)
    throw new UsageError(
      `Nothing to set. Name at least one of --enabled, --min-isolation, --retention-days, --output-retention-days, --tier, --${Object.keys(RULE_FLAGS).join(', --')}.`,
    )
  await api.call('PATCH', `${pathOf(words)}/policy`, changes)
  print(parse(tenantSchema, await api.call('GET', pathOf(words)), 'the answer'), terminal)
}

async function templates(
  api: ApiConnection,
  words: readonly string[],
  _: CommandLine,
  terminal: Terminal,
): Promise<void> {
  const answer = await api.call('GET', `${pathOf(words)}/templates`)
  const found = parse(z.object({ templates: z.array(templateSchema) }), answer, 'the answer').templates
  terminal.value(found)
  const rows = found.map(({ template_id, sandbox }) => [template_id, JSON.stringify(sandbox)])
  for (const text of table(['TEMPLATE', 'SANDBOX'], rows)) terminal.line(text)
}

async function setTemplate(
  api: ApiConnection,
  words: readonly string[],
  line: CommandLine,
  terminal: Terminal,
): Promise<void> {
  const path = `${pathOf(words)}/templates/${encodeURIComponent(words[1] ?? '')}`
  const put = parse(templateSchema, await api.call('PUT', path, { sandbox: templateOf(line) }), 'the answer')
  terminal.value(put)
  terminal.line(`${put.template_id}: ${JSON.stringify(put.sandbox)}`)
}

async function keys(
  api: ApiConnection,
  words: readonly string[],
  _: CommandLine,
  terminal: Terminal,
): Promise<void> {
  const found = parse(keysSchema, await api.call('GET', `${pathOf(words)}/keys`), 'the answer').keys
  terminal.value(found)
  const rows = found.map((key) => [key.id, key.label, key.created_at, key.revoked_at])
  for (const text of table(['KEY ID', 'LABEL', 'CREATED', 'REVOKED'], rows)) terminal.line(text)
}

async function newKey(
  api: ApiConnection,
  words: readonly string[],
  line: CommandLine,
  terminal: Terminal,
): Promise<void> {
  const answer = await api.call('POST', `${pathOf(words)}/keys`, { label: textFlag(line, 'label') ?? 'cli' })
  const made = parse(keyMadeSchema, answer, 'the answer')
  terminal.value(made)
  // The key alone on stdout, so that `KEY=$(cofferdam tenant new-key acme)` works.
  terminal.line(made.key)
  terminal.note(`Key ${made.id} of tenant ${words[0]}; it is not shown again.`)
}

const secretSchema = z.object({ secret: z.string(), rotated_at: z.string() })

async function newCallbackSecret(
  api: ApiConnection,
  words: readonly string[],
  _: CommandLine,
  terminal: Terminal,
): Promise<void> {
  const made = parse(
    secretSchema,
    await api.call('POST', `${pathOf(words)}/callback-secret`, {}),
    'the answer',
  )
  terminal.value(made)
  // Alone on stdout, as a new key is.
  terminal.line(made.secret)
  terminal.note('It is not shown again; the one before it signs along for 24 hours.')
}

async function revokeKey(
  api: ApiConnection,
  words: readonly string[],
  _: CommandLine,
  terminal: Terminal,
): Promise<void> {
  await api.call('DELETE', `${pathOf(words)}/keys/${encodeURIComponent(words[1] ?? '')}`)
  terminal.value({ id: words[1], revoked: true })
  terminal.line(`Key ${words[1]} is revoked.`)
}
