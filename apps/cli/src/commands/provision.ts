import {
  createAgentcoreProvisioner,
  interpretersFor,
  type ProvisionReport,
  type ReconcileOptions,
} from '@cofferdam/backends'
import { CofferdamError } from '@cofferdam/contract'
import { createStore, type Store } from '@cofferdam/store'
import { loadProvisioning } from '@cofferdam/worker'
import { userInfo } from 'node:os'
import path from 'node:path'
import type { Command } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { hasFlag, textFlag } from '../parse-command-line.ts'
import { table } from '../table.ts'
import type { Terminal } from '../terminal.ts'
import { UsageError } from '../usage-error.ts'

export const command: Command = {
  usage: 'agentcore [--tenant ID | --all] [--dry-run] [--gc] [--remove]',
  details:
    'Gives tenants code interpreters of their own at Amazon Bedrock AgentCore, and keeps the rows of DATABASE_URL and the service\n' +
    'in step: makes what is missing, forgets what the service knows no more. May be repeated, and goes on where it ended.\n' +
    'Settings: provisioning.agentcore of cofferdam.config.yaml; credentials: where the AWS SDK looks for them. Exit status 1\n' +
    'when something is not ready. Rights, roles and what to do about failures: docs/operations/agentcore.md.',
  flags: {
    tenant: { type: 'string', value: 'ID', description: 'also wants this tenant’s, and works on no other’s' },
    all: { type: 'boolean', description: 'also wants those of every tenant whose sandbox is on' },
    'dry-run': { type: 'boolean', description: 'say what would be done; change nothing' },
    gc: {
      type: 'boolean',
      description: 'also delete interpreters with our prefix that no row names, an hour old or older',
    },
    remove: { type: 'boolean', description: 'with --tenant: delete its interpreters and its role' },
  },
  words: { min: 1, max: 1 },
  examples: [
    'cofferdam provision agentcore --tenant acme',
    'cofferdam provision agentcore --all --gc --dry-run',
    'cofferdam provision agentcore --tenant acme --remove',
  ],
  async run({ config, terminal, stop }, line) {
    if (line.words[0] !== 'agentcore')
      throw new UsageError(`cofferdam provision knows agentcore, not ${JSON.stringify(line.words[0])}.`)
    const tenantId = textFlag(line, 'tenant')
    const [all, dryRun, remove] = [hasFlag(line, 'all'), hasFlag(line, 'dry-run'), hasFlag(line, 'remove')]
    if (all && tenantId !== undefined) throw new UsageError('Either --tenant ID or --all, not both.')
    if (remove && (tenantId === undefined || dryRun || hasFlag(line, 'gc')))
      throw new UsageError('--remove takes --tenant ID and nothing else.')
    const { agentcore } = loadProvisioning(config.environment)
    if (agentcore === undefined)
      throw new CofferdamError(
        'config_invalid',
        'cofferdam.config.yaml has no section provisioning.agentcore; its region at least is needed (docs/configuration.md).',
      )
    if (config.databaseUrl === undefined)
      throw new CofferdamError(
        'config_invalid',
        'DATABASE_URL is not set (example: postgres://cofferdam@127.0.0.1/cofferdam).',
      )
    await using store = await createStore({
      databaseUrl: config.databaseUrl,
      blobDir: path.join(config.dataDir, 'blobs'),
    })
    await store.ping()
    await using provisioner = createAgentcoreProvisioner(agentcore, {
      rows: store.codeInterpreters,
      actor: `cofferdam provision by ${userInfo().username}`,
    })

    if (remove) {
      const removed = await provisioner.remove(tenantId ?? '', stop)
      if (removed === null) throw isBusy()
      terminal.value({ removed })
      terminal.line(`${removed.length} interpreters of ${tenantId} deleted.`)
      return EXIT.ok
    }
    const report = await provisioner.reconcile({
      ...(tenantId === undefined ? {} : { tenantId }),
      request: await wishesOf(store, tenantId, all),
      dryRun,
      garbage: hasFlag(line, 'gc') ? 'delete' : 'keep',
      signal: stop,
    })
    if (report === null) throw isBusy()
    terminal.value(report)
    show(report, terminal)
    const isDone = report.interpreters.every(({ state }) => state === 'ready' || state === 'disabled')
    return isDone || dryRun ? EXIT.ok : EXIT.platform
  },
}

/** What is to be asked for beyond what was asked for earlier. */
async function wishesOf(
  store: Store,
  tenantId: string | undefined,
  all: boolean,
): Promise<NonNullable<ReconcileOptions['request']>> {
  if (tenantId !== undefined) {
    const tenant = await store.tenants.get(tenantId)
    if (tenant === null) throw new CofferdamError('not_found', `There is no tenant ${tenantId}.`)
    return [{ tenantId, environments: interpretersFor(tenant.policy.environments) }]
  }
  const wishes = []
  for (let after: string | undefined; all;) {
    const page = await store.tenants.list(after === undefined ? {} : { after })
    for (const { policy } of page)
      if (policy.sandbox_enabled)
        wishes.push({ tenantId: policy.tenant_id, environments: interpretersFor(policy.environments) })
    after = page.at(-1)?.policy.tenant_id
    if (after === undefined) break
  }
  return wishes
}

function show({ interpreters, garbage }: ProvisionReport, terminal: Terminal): void {
  const rows = interpreters.map((line) => [
    line.tenant_id,
    line.environment,
    line.state,
    line.action,
    line.interpreter_id,
    line.detail,
  ])
  if (rows.length === 0) terminal.line('No tenant wants an interpreter: name one with --tenant, or --all.')
  else
    for (const text of table(['TENANT', 'ENVIRONMENT', 'STATE', 'DONE', 'INTERPRETER', 'WHY'], rows))
      terminal.line(text)
  if (garbage === null) return
  terminal.line('')
  terminal.line(garbage.length === 0 ? 'No garbage.' : 'Interpreters that no row names:')
  const found = garbage.map((line) => [
    line.interpreter_id,
    `${Math.floor(line.age_ms / 60_000)} min`,
    line.action,
  ])
  if (found.length > 0) for (const text of table(['INTERPRETER', 'AGE', 'DONE'], found)) terminal.line(text)
}

const isBusy = (): CofferdamError =>
  new CofferdamError('conflict', 'Another process is provisioning now; ask again when it is done.')
