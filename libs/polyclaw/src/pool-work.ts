/**
 * Makes and removes the session pool at Azure, and records it. One request at a time does so, under a lease
 * in Postgres. When its process dies, the next request continues with the same plan.
 *
 *   make     pool exists: nothing to do. Else: record the plan ─► group, pool, roles ─► settings
 *              └─ failed ─► remove what was made ─► list as an orphan what may still exist
 *   remove   record the plan ─► delete the pool ─► delete the group if ours and empty ─► clear the settings
 *              └─ pool may still exist ─► list it as an orphan; the settings stay
 */
import { randomBytes } from 'node:crypto'
import { poolIdOf, type FoundPool, type PoolPlan, type PoolProvisioner } from '@cofferdam/backends'
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { POOL_DEFAULTS, type PoolWish } from './pool-wish.ts'
import type { SandboxConfig, SandboxConfigs, SandboxSettings } from './settings-table.ts'

/** The lease is renewed before each call to Azure. No call takes this long, even with its retries. */
const LEASE_MS = 10 * 60_000

export interface PoolWorkDeps {
  configs: SandboxConfigs
  provisioner: PoolProvisioner
  signal: AbortSignal
  actor: string
}

const planSchema = z.object({
  subscription: z.string(),
  resource_group: z.string(),
  pool_name: z.string(),
  location: z.string(),
  owner: z.string(),
})

export const isProvisioned = ({ pool_name, session_pool_endpoint }: SandboxSettings): boolean =>
  pool_name !== '' && session_pool_endpoint !== ''

const CLEARED: Partial<SandboxSettings> = {
  enabled: false,
  session_pool_endpoint: '',
  resource_group: '',
  location: '',
  pool_name: '',
  pool_id: '',
}

/** Throws `conflict` while another request works on the pool, and the errors of Azure. */
export async function makeSandboxPool(
  deps: PoolWorkDeps,
  wish: PoolWish,
): Promise<'made' | 'already_provisioned'> {
  const { configs, provisioner, actor, signal } = deps
  const claimed = await configs.claim(actor, LEASE_MS, (now) =>
    hasPool(now) ? null : { kind: 'making', plan: planFor(now, wish, provisioner.subscription) },
  )
  if (claimed === null) return 'already_provisioned'
  const plan = planSchema.parse(claimed.plan)
  let reached: string | null = null
  const keep = async (step: string): Promise<void> => {
    await configs.renew(claimed.lease, step, LEASE_MS)
    reached = step
  }
  try {
    const { endpoint, location, pool_id } = await provisioner.make(plan, { keep, signal })
    const { resource_group, pool_name } = plan
    const settings = { session_pool_endpoint: endpoint, location, pool_id, resource_group, pool_name }
    await configs.finish(claimed.lease, actor, settings)
    await configs.resolveOrphan(poolIdOf(plan))
    return 'made'
  } catch (error) {
    // Keep the plan, so that a later request can continue it. Either another process has the lease, or this
    // one is closing.
    if (isFenced(error) || signal.aborted) throw error
    // If no step began, nothing was created at Azure.
    if (reached !== null) await undo(deps, plan, keep)
    await configs.finish(claimed.lease, actor, {})
    throw error
  }
}

/** What `removeSandboxPool` removed. */
export interface RemovedPool {
  status: 'removed' | 'not_provisioned'
  /** `kept`: not ours, or not empty. `orphaned`: ours, and it may still exist. */
  resource_group: 'gone' | 'kept' | 'orphaned' | null
  /** The removed pool, even if it was half made and is in no setting. Null when there was none. */
  plan: PoolPlan | null
}

/** Throws `conflict` while another request works on the pool, or when it is not ours, and Azure's errors. */
export async function removeSandboxPool(deps: PoolWorkDeps): Promise<RemovedPool> {
  const { configs, provisioner, actor, signal } = deps
  const claimed = await configs.claim(actor, LEASE_MS, (now) => {
    const plan = planOf(now, provisioner.subscription)
    return plan === null ? null : { kind: 'removing', plan }
  })
  if (claimed === null) return { status: 'not_provisioned', resource_group: null, plan: null }
  const plan = planSchema.parse(claimed.plan)
  const keep = (step: string): Promise<void> => configs.renew(claimed.lease, step, LEASE_MS)
  try {
    await provisioner.removePool(plan, { keep, signal })
  } catch (error) {
    if (isFenced(error) || signal.aborted) throw error
    if (!isForeign(error)) await configs.addOrphan(poolIdOf(plan), reasonOf(error))
    await configs.finish(claimed.lease, actor, {})
    throw error
  }
  await configs.resolveOrphan(poolIdOf(plan))
  const resource_group = await removeGroupOf(deps, plan, keep)
  await configs.finish(claimed.lease, actor, CLEARED)
  return { status: 'removed', resource_group, plan }
}

/** What making or removing would do now. */
export type PoolPreview =
  | { status: 'already_provisioned' | 'not_provisioned' }
  | { status: 'would_make' | 'would_remove'; plan: PoolPlan; group: FoundPool; pool: FoundPool }

/** Reads from Azure and changes nothing. Throws the errors that making and removing would throw. */
export async function previewSandboxPool(
  { configs, provisioner, signal }: Omit<PoolWorkDeps, 'actor'>,
  work: { kind: 'making'; wish: PoolWish } | { kind: 'removing' },
): Promise<PoolPreview> {
  const now = await configs.get()
  if (now.work?.held === true)
    throw new CofferdamError('conflict', 'The pool is being made or removed by another request just now.')
  if (work.kind === 'making' && hasPool(now)) return { status: 'already_provisioned' }
  const plan =
    work.kind === 'making'
      ? planFor(now, work.wish, provisioner.subscription)
      : planOf(now, provisioner.subscription)
  if (plan === null) return { status: 'not_provisioned' }
  const status = work.kind === 'making' ? 'would_make' : 'would_remove'
  return { status, plan, ...(await provisioner.find(plan, signal)) }
}

/**
 * Whether there is a pool that nobody has begun to remove. While it is removed, its settings still name it.
 */
const hasPool = ({ settings, work }: SandboxConfig): boolean =>
  isProvisioned(settings) && work?.kind !== 'removing'

/**
 * Returns the plan of a new pool, or of one that a dead process left half made. Throws `conflict` if the
 * request names other values, or if a pool was left half removed.
 */
function planFor(now: SandboxConfig, wish: PoolWish, subscription: string): PoolPlan {
  const left = now.work === null ? null : planSchema.parse(now.work.plan)
  if (now.work?.kind === 'removing')
    throw new CofferdamError('conflict', 'The pool is being removed; send DELETE again to finish that.')
  if (left === null)
    return {
      subscription,
      resource_group: wish.resource_group ?? POOL_DEFAULTS.resource_group,
      location: wish.location ?? POOL_DEFAULTS.location,
      // ARM's pattern for generated names has no hyphens.
      pool_name: wish.pool_name ?? `cofferdam${randomBytes(5).toString('hex')}`,
      owner: now.fleetOwner,
    }
  const others = (['resource_group', 'location', 'pool_name'] as const).filter(
    (name) => wish[name] !== undefined && wish[name] !== left[name],
  )
  if (others.length === 0) return left
  throw new CofferdamError(
    'conflict',
    `The pool ${left.pool_name} in ${left.resource_group} was left half made: send the same names, or ` +
      'DELETE first.',
  )
}

/** The existing pool, or one that was left half made or half removed. Null when there is none. */
function planOf(now: SandboxConfig, subscription: string): PoolPlan | null {
  if (now.work !== null) return planSchema.parse(now.work.plan)
  const { pool_id, pool_name, resource_group, location } = now.settings
  if (pool_name === '') return null
  const own = /^\/subscriptions\/([^/]+)\//i.exec(pool_id)?.[1] ?? subscription
  return { subscription: own, resource_group, location, pool_name, owner: now.fleetOwner }
}

async function undo(
  deps: PoolWorkDeps,
  plan: PoolPlan,
  keep: (step: string) => Promise<void>,
): Promise<void> {
  try {
    await deps.provisioner.removePool(plan, { keep, signal: deps.signal })
  } catch (error) {
    if (isFenced(error) || deps.signal.aborted) throw error
    // Do not list a pool that is not ours as an orphan.
    if (!isForeign(error)) return await deps.configs.addOrphan(poolIdOf(plan), reasonOf(error))
  }
  await removeGroupOf(deps, plan, keep)
}

async function removeGroupOf(
  { provisioner, configs, signal }: PoolWorkDeps,
  plan: PoolPlan,
  keep: (step: string) => Promise<void>,
): Promise<'gone' | 'kept' | 'orphaned'> {
  const groupId = `/subscriptions/${plan.subscription}/resourceGroups/${plan.resource_group}`
  try {
    const outcome = await provisioner.removeGroup(plan, { keep, signal })
    await configs.resolveOrphan(groupId)
    return outcome
  } catch (error) {
    if (isFenced(error) || signal.aborted) throw error
    await configs.addOrphan(groupId, reasonOf(error))
    return 'orphaned'
  }
}

const isFenced = (error: unknown): boolean => isCofferdamError(error) && error.code === 'fenced'
const isForeign = (error: unknown): boolean => isCofferdamError(error) && error.code === 'conflict'
const reasonOf = (error: unknown): string =>
  isCofferdamError(error) ? error.message : 'It failed on our side.'
