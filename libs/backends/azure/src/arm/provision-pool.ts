/**
 * Creates and removes a session pool, also across crashes. The caller records the plan first, so that another
 * process can continue it. Every step may be repeated.
 *
 *   idle ─► making: group ─► pool ─► roles ─► endpoint ─► idle (the caller keeps the endpoint)
 *             └─ failed ─► what we made is removed again; what is not proven gone is an orphan ─► idle
 *   idle ─► removing: pool ─► proven gone (404) ─► group, when it is ours and empty ─► idle
 *
 * A resource is ours if it has our tag `fleet-owner`. Nothing else is ever changed or removed.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'
import { ArmFailure, type ArmClient } from './arm-client.ts'
import { untilOver } from './long-running.ts'
import {
  deleteGroup,
  deletePool,
  getGroup,
  getPool,
  isGroupEmpty,
  poolIdOf,
  putExecutorRole,
  putGroup,
  putPool,
  type ArmTags,
  type PoolPlace,
} from './pool-calls.ts'

const OWNER_TAG = 'fleet-owner'

/** The plan of a pool, as JSON that the caller keeps. */
export interface PoolPlan extends PoolPlace {
  location: string
  /** The value of our tag. */
  owner: string
}

export interface PoolSteps {
  arm: ArmClient
  /** The principals that may run programs in the pool. */
  principals: readonly string[]
  signal: AbortSignal
  /** Renews the caller's lock on the plan. Called before each step and poll. Throws if the lock is lost. */
  keep(step: string): Promise<void>
}

export interface MadePool {
  endpoint: string
  location: string
  pool_id: string
}

/**
 * Azure may refuse a role for a new principal until its directory has copied it. Tried at intervals of
 * `retryMs`: by default for 3 minutes, as Terraform does (terraform-provider-azurerm, pull request 1647). Not
 * avoided by `principalType`, because Azure would then also accept an ID that does not exist.
 */
const PRINCIPAL_TRIES = 36
/** The endpoint appears when the operation is over, or shortly after. */
const ENDPOINT_TRIES = 10
/** ARM may still return a resource for a short time after its deletion is over. */
const GONE_TRIES = 10

/** The owner of a resource. It is ours if it has our tag. */
export type Found = 'absent' | 'ours' | 'foreign'

/** Reads what exists. Throws ArmFailure. */
export async function findPool(
  { arm, signal }: Pick<PoolSteps, 'arm' | 'signal'>,
  plan: PoolPlan,
): Promise<{ group: Found; pool: Found }> {
  const [group, pool] = [await getGroup(arm, plan, signal), await getPool(arm, plan, signal)]
  return { group: foundOf(group, plan), pool: foundOf(pool, plan) }
}

const foundOf = (there: { tags?: ArmTags } | null, { owner }: PoolPlan): Found =>
  there === null ? 'absent' : there.tags?.[OWNER_TAG] === owner ? 'ours' : 'foreign'

/** Creates the pool. Throws ArmFailure or `conflict`. What it created so far stays for `removePool`. */
export async function makePool(steps: PoolSteps, plan: PoolPlan): Promise<MadePool> {
  const { arm, signal } = steps
  const tags = { [OWNER_TAG]: plan.owner }
  await steps.keep('group')
  if ((await getGroup(arm, plan, signal)) === null)
    await putGroup(arm, plan, { location: plan.location, tags }, signal)
  await steps.keep('pool')
  const there = await getPool(arm, plan, signal)
  refuseForeign(there, plan)
  if (there?.properties.provisioningState !== 'Succeeded') {
    const started = await putPool(arm, plan, { location: plan.location, tags }, signal)
    await untilOver(arm, `the pool ${plan.pool_name}`, started, signal, () => steps.keep('pool'))
  }
  await steps.keep('roles')
  for (const principal of steps.principals) await grant(steps, plan, principal)
  await steps.keep('endpoint')
  return await endpointOf(steps, plan)
}

async function grant(steps: PoolSteps, plan: PoolPlan, principal: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await putExecutorRole(steps.arm, plan, principal, steps.signal)
    } catch (error) {
      if (!(error instanceof ArmFailure)) throw error
      // The role was assigned under another name.
      if (error.armCode === 'RoleAssignmentExists') return
      if (error.armCode !== 'PrincipalNotFound' || attempt === PRINCIPAL_TRIES) throw error
      await sleep(steps.arm.settings.retryMs, undefined, { signal: steps.signal })
      await steps.keep('roles')
    }
  }
}

async function endpointOf(steps: PoolSteps, plan: PoolPlan): Promise<MadePool> {
  for (let attempt = 1; attempt <= ENDPOINT_TRIES; attempt += 1) {
    const pool = await getPool(steps.arm, plan, steps.signal)
    const endpoint = pool?.properties.poolManagementEndpoint?.replace(/\/+$/, '') ?? ''
    if (pool !== null && endpoint !== '') return { endpoint, location: pool.location, pool_id: pool.id }
    await sleep(steps.arm.settings.retryMs, undefined, { signal: steps.signal })
    await steps.keep('endpoint')
  }
  throw new ArmFailure(`the pool ${plan.pool_name}`, 200, 'NoEndpoint', 'it has no poolManagementEndpoint')
}

/** Resolves when a 404 proves that the pool is gone. Throws ArmFailure, or `conflict` if it is not ours. */
export async function removePool(steps: PoolSteps, plan: PoolPlan): Promise<void> {
  const { arm, signal } = steps
  await steps.keep('pool')
  const there = await getPool(arm, plan, signal)
  if (there === null) return
  refuseForeign(there, plan)
  const started = await deletePool(arm, plan, signal)
  await untilOver(arm, `the pool ${plan.pool_name}`, started, signal, () => steps.keep('pool'))
  await untilGone(
    steps,
    plan,
    `the pool ${plan.pool_name}`,
    async () => (await getPool(arm, plan, signal)) === null,
  )
}

/**
 * Removes the group if it is ours and empty; otherwise resolves to `kept`. Throws ArmFailure if the removal
 * failed or is not proven.
 */
export async function removeGroup(steps: PoolSteps, plan: PoolPlan): Promise<'gone' | 'kept'> {
  const { arm, signal } = steps
  await steps.keep('group')
  const group = await getGroup(arm, plan, signal)
  if (group === null) return 'gone'
  if (foundOf(group, plan) !== 'ours' || !(await isGroupEmpty(arm, plan, signal))) return 'kept'
  const started = await deleteGroup(arm, plan, signal)
  await untilOver(arm, `the group ${plan.resource_group}`, started, signal, () => steps.keep('group'))
  await untilGone(
    steps,
    plan,
    `the group ${plan.resource_group}`,
    async () => (await getGroup(arm, plan, signal)) === null,
  )
  return 'gone'
}

async function untilGone(
  steps: PoolSteps,
  plan: PoolPlan,
  what: string,
  isGone: () => Promise<boolean>,
): Promise<void> {
  for (let attempt = 1; attempt <= GONE_TRIES; attempt += 1) {
    if (await isGone()) return
    await sleep(steps.arm.settings.retryMs, undefined, { signal: steps.signal })
    await steps.keep('gone')
  }
  throw new ArmFailure(what, 200, 'StillThere', 'it was deleted and is still there')
}

function refuseForeign(there: { tags?: ArmTags } | null, plan: PoolPlan): void {
  if (foundOf(there, plan) !== 'foreign') return
  throw new CofferdamError(
    'conflict',
    `The pool ${poolIdOf(plan)} does not bear our tag ${OWNER_TAG}=${plan.owner}: it is somebody else's, and stays as it is.`,
  )
}
