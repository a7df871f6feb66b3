import { apiKeyScopeSchema, templateSchema, tenantCapsSchema, tenantPolicySchema } from '@cofferdam/contract'
import { z } from 'zod'
import { openApi, tenantPath, type ApiConnection } from '../api-connection.ts'
import { API_FLAGS, type Command, type CommandLine } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { findVerb, hasFlag, numberFlag, textFlag, verbUsage, type Verb } from '../parse-command-line.ts'
import { namesHalf, POLICY_FLAGS, policyOf, templateOf } from '../policy-flags.ts'
import { showChanges, table } from '../table.ts'
import type { Terminal } from '../terminal.ts'
import { UsageError } from '../usage-error.ts'

/** Keys of tenants get a policy without the values to redact. */
const shownPolicySchema = tenantPolicySchema.partial({ redact: true })
const tenantSchema = z.object({ policy: shownPolicySchema, caps: tenantCapsSchema })
const tenantPageSchema = z.object({ tenants: z.array(tenantSchema), next_cursor: z.string().nullable() })
const templatesSchema = z.object({ templates: z.array(templateSchema) })
const keysSchema = z.object({
  keys: z.array(
    z.object({
      id: z.string(),
      scope: apiKeyScopeSchema,
      template_id: z.string().nullable().default(null),
      read_only: z.boolean().default(false),
      label: z.string(),
      created_at: z.string(),
      revoked_at: z.string().nullable(),
    }),
  ),
})
const keyMadeSchema = z.object({ id: z.string(), key: z.string() })
const secretSchema = z.object({ secret: z.string(), rotated_at: z.string() })
type Tenant = z.infer<typeof tenantSchema>

/** What a verb gets. */
interface TenantCall {
  api: ApiConnection
  /** `/v1/tenants/{tenant}` of the first word. */
  path: string
  /** The words after the verb, with the tenant first. Empty for `list`. */
  words: readonly string[]
  line: CommandLine
  terminal: Terminal
}

const VERBS: Record<string, Verb<(call: TenantCall) => Promise<void>>> = {
  list: { usage: '', run: list },
  create: { usage: 'TENANT [flags]', run: create },
  show: { usage: 'TENANT', run: show },
  events: { usage: 'TENANT', run: events },
  set: { usage: 'TENANT [flags]', run: set },
  templates: { usage: 'TENANT', run: templates },
  'set-template': { usage: 'TENANT TEMPLATE [flags]', run: setTemplate },
  keys: { usage: 'TENANT', run: keys },
  'new-key': { usage: 'TENANT', run: newKey },
  'revoke-key': { usage: 'TENANT KEY-ID', run: revokeKey },
  'new-callback-secret': { usage: 'TENANT', run: newCallbackSecret },
}

export const command: Command = {
  usage: verbUsage(VERBS),
  details:
    'Needs an admin key. An API key is shown once, when it is created. A list is replaced as a whole; ' +
    'separate its parts\n' +
    'by commas. set-template replaces a template: what you leave out falls back to the tenant’s policy.',
  flags: {
    ...POLICY_FLAGS,
    limit: { type: 'string', value: 'N', description: 'events: how many, newest first (default: 50)' },
    template: {
      type: 'string',
      value: 'ID',
      description: 'new-key: executions that come with the key run under this template',
    },
    'read-only': { type: 'boolean', description: 'new-key: the key may only read' },
    label: { type: 'string', value: 'TEXT', description: 'new-key: what the key is for (default: cli)' },
    ...API_FLAGS,
  },
  words: { min: 1, max: 3 },
  examples: [
    'cofferdam tenant create acme --min-isolation container',
    'cofferdam tenant new-key acme --label "build agents"',
    'cofferdam tenant new-key acme --label "screen on the wall" --read-only',
    'cofferdam tenant set acme --enabled false',
    'cofferdam tenant events acme --limit 10',
    'cofferdam tenant set acme --block-commands "curl,wget,git push"',
    'cofferdam tenant set-template acme clinic --environment internal-only --network none \\\n' +
      '    --min-isolation gvisor --retention-days 7 --encrypt-outputs true',
  ],
  async run(context, line) {
    const { run, words } = findVerb('tenant', VERBS, line.words)
    const path = tenantPath(words[0] ?? '')
    await run({ api: openApi(context, line), path, words, line, terminal: context.terminal })
    return EXIT.ok
  },
}

function print({ policy, caps }: Tenant, terminal: Terminal): void {
  terminal.value({ policy, caps })
  terminal.line(terminal.style('bold', policy.tenant_id))
  for (const [name, value] of Object.entries(policy))
    if (name !== 'tenant_id' && name !== 'redact')
      terminal.line(`  ${name.padEnd(16)} ${JSON.stringify(value)}`)
  const { redact } = policy
  const values = redact === undefined ? 'shown to admin keys only' : `${redact.length} literal values`
  terminal.line(`  ${'redact'.padEnd(16)} ${values}`)
  terminal.line(terminal.style('dim', `  caps: ${JSON.stringify(caps)}`))
}

async function list({ api, terminal }: TenantCall): Promise<void> {
  const tenants: Tenant[] = []
  for await (const page of api.pages(tenantPageSchema, '/v1/tenants')) tenants.push(...page.tenants)
  terminal.value(tenants)
  const rows = tenants.map(({ policy }) => [
    policy.tenant_id,
    policy.sandbox_enabled ? 'on' : 'off',
    policy.compliance_tier,
    policy.min_isolation,
    policy.retention_days,
  ])
  terminal.lines(table(['TENANT', 'SANDBOX', 'TIER', 'MIN ISOLATION', 'RETENTION'], rows))
}

async function create({ api, words, line, terminal }: TenantCall): Promise<void> {
  print(
    await api.ask(tenantSchema, 'POST', '/v1/tenants', { tenant_id: words[0], ...policyOf(line) }),
    terminal,
  )
}

async function show({ api, path, terminal }: TenantCall): Promise<void> {
  print(await api.ask(tenantSchema, 'GET', path), terminal)
}

async function events({ api, path, line, terminal }: TenantCall): Promise<void> {
  const limit = numberFlag(line, 'limit', { min: 1, max: 500 }) ?? 50
  showChanges(await api.call('GET', `${path}/policy/events?limit=${limit}`), terminal)
}

async function set(call: TenantCall): Promise<void> {
  const { api, path, line } = call
  const now = namesHalf(line) ? (await api.ask(tenantSchema, 'GET', path)).policy : undefined
  const changes = policyOf(line, now)
  if (Object.keys(changes).length === 0)
    throw new UsageError(`Nothing to set. Name at least one of --${Object.keys(POLICY_FLAGS).join(', --')}.`)
  await api.call('PATCH', `${path}/policy`, changes)
  await show(call)
}

async function templates({ api, path, terminal }: TenantCall): Promise<void> {
  const found = (await api.ask(templatesSchema, 'GET', `${path}/templates`)).templates
  terminal.value(found)
  const rows = found.map(({ template_id, sandbox }) => [template_id, JSON.stringify(sandbox)])
  terminal.lines(table(['TEMPLATE', 'SANDBOX'], rows))
}

async function setTemplate({ api, path, words: [, id], line, terminal }: TenantCall): Promise<void> {
  const asked = { sandbox: templateOf(line) }
  const route = `${path}/templates/${encodeURIComponent(id ?? '')}`
  const put = await api.ask(templateSchema, 'PUT', route, asked)
  terminal.value(put)
  terminal.line(`${put.template_id}: ${JSON.stringify(put.sandbox)}`)
}

/** Lists all keys, including the revoked ones, but never the keys themselves. */
async function keys({ api, path, terminal }: TenantCall): Promise<void> {
  const found = (await api.ask(keysSchema, 'GET', `${path}/keys`)).keys
  terminal.value(found)
  const rows = found.map((key) => [
    key.id,
    key.label,
    key.template_id,
    key.read_only ? 'read' : 'all',
    key.created_at,
    key.revoked_at,
  ])
  terminal.lines(table(['KEY ID', 'LABEL', 'TEMPLATE', 'MAY', 'CREATED', 'REVOKED'], rows))
}

/** Creates a key and shows it once. */
async function newKey({ api, path, words, line, terminal }: TenantCall): Promise<void> {
  const template = textFlag(line, 'template')
  const made = await api.ask(keyMadeSchema, 'POST', `${path}/keys`, {
    label: textFlag(line, 'label') ?? 'cli',
    ...(template === undefined ? {} : { template_id: template }),
    ...(hasFlag(line, 'read-only') ? { read_only: true } : {}),
  })
  terminal.value(made)
  // The key alone on stdout, so that `KEY=$(cofferdam tenant new-key acme)` works.
  terminal.line(made.key)
  terminal.note(`Key ${made.id} of tenant ${words[0]}. It is not shown again.`)
}

async function revokeKey({ api, path, words: [, id], terminal }: TenantCall): Promise<void> {
  await api.call('DELETE', `${path}/keys/${encodeURIComponent(id ?? '')}`)
  terminal.value({ id, revoked: true })
  terminal.line(`Key ${id} is revoked.`)
}

/** Creates the secret that signs callbacks and shows it once. */
async function newCallbackSecret({ api, path, terminal }: TenantCall): Promise<void> {
  const made = await api.ask(secretSchema, 'POST', `${path}/callback-secret`, {})
  terminal.value(made)
  // Alone on stdout, like a new key.
  terminal.line(made.secret)
  terminal.note('It is not shown again. The previous one also signs for another 24 hours.')
}
