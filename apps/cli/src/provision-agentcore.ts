/** `cofferdam provision agentcore`: code interpreters of tenants at Amazon Bedrock AgentCore. */
import {
  createAgentcoreProvisioner,
  interpretersFor,
  type ProvisionReport,
  type ReconcileOptions,
} from '@cofferdam/backends'
import { CofferdamError } from '@cofferdam/contract'
import type { Store } from '@cofferdam/store'
import { loadProvisioning } from '@cofferdam/worker'
import type { CommandLine, Context } from './command.ts'
import { EXIT } from './exit-status.ts'
import { hasFlag, textFlag } from './parse-command-line.ts'
import { openStore, provisioningActor } from './provision-store.ts'
import { table } from './table.ts'
import type { Terminal } from './terminal.ts'
import { UsageError } from './usage-error.ts'

/** Resolves with the exit status. */
export async function provisionAgentcore(
  { config, terminal, stop }: Context,
  line: CommandLine,
): Promise<number> {
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
  await using store = await openStore(config)
  await using provisioner = createAgentcoreProvisioner(agentcore, {
    rows: store.codeInterpreters,
    actor: provisioningActor(),
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
}

/** The interpreters that this command requests, in addition to those of earlier commands. */
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
