/** `cofferdam provision azure`: creates and removes the fleet's pool, as /api/sandbox/provision does. */
import { createPoolProvisioner, type FoundPool } from '@cofferdam/backends'
import { CofferdamError } from '@cofferdam/contract'
import {
  createSandboxConfigs,
  makeSandboxPool,
  previewSandboxPool,
  removeSandboxPool,
  type PoolPreview,
  type RemovedPool,
  type SandboxConfigs,
  type SandboxSettings,
} from '@cofferdam/polyclaw'
import { poolWishSchema, type PoolWish } from '@cofferdam/polyclaw/pool-wish'
import { loadProvisioning } from '@cofferdam/worker'
import type { CommandLine, Context } from './command.ts'
import { EXIT } from './exit-status.ts'
import { hasFlag, textFlag } from './parse-command-line.ts'
import { openStore, provisioningActor } from './provision-store.ts'
import { table } from './table.ts'
import type { Terminal } from './terminal.ts'
import { UsageError } from './usage-error.ts'

/** One resource: its state, and what was or would be done to it. */
interface Resource {
  resource: 'group' | 'pool'
  name: string
  state: string
  action: string
  detail: string | null
}

/** Resolves with the exit status. */
export async function provisionAzure(
  { config, terminal, stop }: Context,
  line: CommandLine,
): Promise<number> {
  const wish = wishOf(line)
  const remove = hasFlag(line, 'remove')
  if (remove && Object.keys(wish).length > 0)
    throw new UsageError('--remove removes the pool that is recorded: name no other.')
  const { azure } = loadProvisioning(config.environment)
  if (azure === undefined)
    throw new CofferdamError(
      'config_invalid',
      'cofferdam.config.yaml has no section provisioning.azure; its subscription at least is needed (docs/configuration.md).',
    )
  await using store = await openStore(config)
  const configs = createSandboxConfigs(store)
  const deps = {
    configs,
    provisioner: createPoolProvisioner(azure),
    signal: stop,
    actor: provisioningActor(),
  }
  if (hasFlag(line, 'dry-run')) {
    const before = await configs.get()
    const preview = await previewSandboxPool(deps, remove ? { kind: 'removing' } : { kind: 'making', wish })
    // A half-made pool keeps the name that it was given.
    const isRandom = wish.pool_name === undefined && before.work === null
    await tell(
      configs,
      terminal,
      preview.status,
      'plan' in preview ? previewed(preview, isRandom) : recorded(before.settings),
    )
    return EXIT.ok
  }
  terminal.progress('A session pool takes minutes …')
  if (remove) {
    const removed = await removeSandboxPool(deps)
    await tell(configs, terminal, removed.status, removedOf(removed))
    return removed.resource_group === 'orphaned' ? EXIT.platform : EXIT.ok
  }
  const status = await makeSandboxPool(deps, wish)
  const { settings } = await configs.get()
  await tell(configs, terminal, status, recorded(settings, status === 'made' ? 'created' : 'none'))
  return EXIT.ok
}

function wishOf(line: CommandLine): PoolWish {
  const named = {
    location: textFlag(line, 'location'),
    resource_group: textFlag(line, 'resource-group'),
    pool_name: textFlag(line, 'pool-name'),
  }
  const given = Object.fromEntries(Object.entries(named).filter(([, value]) => value !== undefined))
  const parsed = poolWishSchema.safeParse(given)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const flag = String(issue?.path[0] ?? '').replace('_', '-')
  throw new UsageError(`--${flag}: ${issue?.message ?? 'not understood'}.`)
}

const recorded = ({ pool_name, resource_group }: SandboxSettings, action = 'none'): Resource[] =>
  pool_name === ''
    ? []
    : [
        { resource: 'group', name: resource_group, state: 'ready', action: 'none', detail: null },
        { resource: 'pool', name: pool_name, state: 'ready', action, detail: null },
      ]

/** Includes a pool that was left half made, which no setting names. */
function removedOf({ plan, resource_group: group }: RemovedPool): Resource[] {
  if (plan === null || group === null) return []
  const detail = { gone: null, kept: 'not ours, or it holds something else', orphaned: 'not proven gone' }[
    group
  ]
  return [
    { resource: 'pool', name: plan.pool_name, state: 'gone', action: 'deleted', detail: null },
    {
      resource: 'group',
      name: plan.resource_group,
      state: group,
      action: group === 'gone' ? 'deleted' : 'none',
      detail,
    },
  ]
}

const FOREIGN = 'somebody else’s: it bears no tag of ours'

const RANDOM = 'a name made at random: another one when it is done, unless --pool-name says it'

function previewed(
  { status, plan, group, pool }: Extract<PoolPreview, { plan: object }>,
  isRandom: boolean,
): Resource[] {
  const makes = status === 'would_make'
  const action: Record<'group' | 'pool', Record<FoundPool, string>> = {
    group: makes
      ? { absent: 'would-create', ours: 'none', foreign: 'none' }
      : { absent: 'none', ours: 'would-delete', foreign: 'none' },
    pool: makes
      ? { absent: 'would-create', ours: 'would-finish', foreign: 'would-refuse' }
      : { absent: 'none', ours: 'would-delete', foreign: 'would-refuse' },
  }
  const groupDetail = !makes && group === 'ours' ? 'if it holds nothing else' : null
  return [
    {
      resource: 'group',
      name: plan.resource_group,
      state: group,
      action: action.group[group],
      detail: groupDetail,
    },
    {
      resource: 'pool',
      name: plan.pool_name,
      state: pool,
      action: action.pool[pool],
      detail: pool === 'foreign' ? FOREIGN : makes && isRandom ? RANDOM : null,
    },
  ]
}

async function tell(
  configs: SandboxConfigs,
  terminal: Terminal,
  status: string,
  resources: Resource[],
): Promise<void> {
  const { settings } = await configs.get()
  const orphans = await configs.orphans()
  const { session_pool_endpoint: endpoint, enabled } = settings
  terminal.value({ status, resources, endpoint: endpoint === '' ? null : endpoint, enabled, orphans })
  if (resources.length === 0) terminal.line('There is no pool.')
  else
    for (const text of table(
      ['RESOURCE', 'NAME', 'STATE', 'DONE', 'WHY'],
      resources.map((one) => [one.resource, one.name, one.state, one.action, one.detail]),
    ))
      terminal.line(text)
  if (endpoint !== '') {
    terminal.line('')
    terminal.line(`Endpoint: ${endpoint}`)
    if (!enabled)
      terminal.line('Disabled: nothing runs there until POST /api/sandbox/config says {"enabled": true}.')
  }
  for (const { resource_id: id, reason } of orphans)
    terminal.note(`May still be there, and cost money: ${id} (${reason})`)
}
