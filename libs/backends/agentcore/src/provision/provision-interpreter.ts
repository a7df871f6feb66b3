/**
 * Brings one wanted interpreter one step further, or all the way to `ready`:
 *
 *   ID on record ─► does the service know it? ─► keep it; otherwise forget the ID, and
 *   no ID ─► role ─► create (or adopt one with its name) ─► READY ─► write the ID
 *
 * The work may stop anywhere and be repeated: a creation is found again by its token and its name. The ID is
 * written only when the interpreter is READY, because the worker runs code in any ID that it reads. If the
 * row is gone by then, the new interpreter is deleted.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Environment } from '@cofferdam/contract'
import { creationToken, interpreterName } from './interpreter-name.ts'
import type { InterpreterRows, WantedInterpreter } from './interpreter-rows.ts'
import { AwsFailure, isAwsFailure } from './aws-failure.ts'
import type { AgentcoreProvisionConfig } from './config.ts'
import type { ControlPlane, InterpreterFacts, InterpreterWish } from './control-plane.ts'
import type { TenantRoles } from './tenant-roles.ts'

export interface ProvisionParts {
  config: AgentcoreProvisionConfig
  control: ControlPlane
  roles: TenantRoles
  rows: InterpreterRows
  /** Name of the caller in the database's events. */
  actor: string
  signal: AbortSignal
}

/** State of a wanted interpreter after a round. */
export interface ProvisionLine {
  tenant_id: string
  environment: Environment
  state: 'not-requested' | 'disabled' | 'provisioning' | 'ready'
  interpreter_id: string | null
  /** What the round did, or with `would-` would have done. */
  action: 'none' | 'kept' | 'created' | 'adopted' | 'would-create' | 'would-forget' | 'failed'
  /**
   * Why the interpreter is not ready, why the round failed, or how a ready one differs from the
   * configuration.
   */
  detail: string | null
}

/**
 * The service shows a new interpreter after some seconds. One that it does not show after this time is gone.
 */
const SETTLE_MS = 120_000
const ENDED = new Set(['CREATE_FAILED', 'DELETING', 'DELETED', 'DELETE_FAILED'])

/**
 * AWS's errors go into the `detail` of the returned line. Throws what `rows` throws, and the reason of
 * `signal`.
 */
export async function provisionInterpreter(
  parts: ProvisionParts,
  row: WantedInterpreter,
  dryRun: boolean,
): Promise<ProvisionLine> {
  if (!row.sandbox_enabled) return lineOf(row, 'disabled', 'none')
  try {
    const checked = row.interpreter_id === null ? null : await checkKnown(parts, row, dryRun)
    if (checked !== null) return checked
    if (dryRun) return lineOf(row, 'provisioning', 'would-create')
    return await create(parts, row.interpreter_id === null ? row : await reread(parts, row))
  } catch (error) {
    parts.signal.throwIfAborted()
    if (!(error instanceof AwsFailure)) throw error
    return {
      ...lineOf(row, row.interpreter_id === null ? 'provisioning' : 'ready', 'failed'),
      detail: error.message,
    }
  }
}

/** Returns null if it forgot the ID, so that a new interpreter must be created. */
async function checkKnown(
  { control, rows, actor, config }: ProvisionParts,
  row: WantedInterpreter,
  dryRun: boolean,
): Promise<ProvisionLine | null> {
  const id = row.interpreter_id ?? ''
  const facts = await control.get(id)
  if (facts !== null && !ENDED.has(facts.status)) {
    const detail = differs(config, row, facts)
    return { ...lineOf(row, 'ready', 'kept'), detail }
  }
  const isYoung = row.provisioned_at !== null && Date.now() - Date.parse(row.provisioned_at) < SETTLE_MS
  if (facts === null && isYoung) return lineOf(row, 'ready', 'kept')
  if (dryRun)
    return { ...lineOf(row, 'provisioning', 'would-forget'), detail: 'the service knows it no more' }
  if (facts?.status === 'CREATE_FAILED') await control.delete(id)
  await rows.forget(row.tenant_id, row.environment, id, actor)
  return null
}

/** Reads the row again after its ID was forgotten, with its new generation. */
async function reread({ rows }: ProvisionParts, row: WantedInterpreter): Promise<WantedInterpreter> {
  const all = await rows.list({ tenantId: row.tenant_id })
  return all.find(({ environment }) => environment === row.environment) ?? row
}

async function create(parts: ProvisionParts, row: WantedInterpreter): Promise<ProvisionLine> {
  const { config, roles, rows, actor } = parts
  const role = await roles.ensure(row.tenant_id)
  const wish = wishOf(config, row, role?.arn ?? null)
  const until = Date.now() + config.ready_timeout_ms
  const made = await createOrAdopt(parts, row, wish, role?.isNew === true ? until : 0)
  if ('detail' in made) return { ...lineOf(row, 'provisioning', 'failed'), detail: made.detail }
  const facts = await untilSettled(parts, made.id, until)
  if (facts === null || ENDED.has(facts.status)) {
    const isYoung = Date.now() - made.createdAtMs < SETTLE_MS
    // The token leads to an interpreter that ended or is gone. `forget` makes the next round use another
    // token.
    if (facts !== null || !isYoung) await rows.forget(row.tenant_id, row.environment, null, actor)
    if (facts?.status === 'CREATE_FAILED') await parts.control.delete(made.id)
    const why = facts === null ? 'the service does not show it yet' : `it is ${facts.status}`
    return { ...lineOf(row, 'provisioning', 'failed'), detail: facts?.failureReason ?? why }
  }
  if (facts.status !== 'READY')
    return { ...lineOf(row, 'provisioning', made.action), detail: `it is ${facts.status}` }
  const detail = differs(config, row, facts, wish.executionRoleArn)
  // No code may run in an interpreter with the wrong network or role.
  if (detail !== null) return { ...lineOf(row, 'provisioning', 'failed'), detail }
  if (await rows.provisioned(row, made.id, actor))
    return { ...lineOf(row, 'ready', made.action), interpreter_id: made.id }
  if (!(await rows.isNamed(made.id))) await parts.control.delete(made.id)
  return {
    ...lineOf(row, 'provisioning', 'failed'),
    detail: 'the row changed meanwhile; the next round decides',
  }
}

type Made = { id: string; createdAtMs: number; action: 'created' | 'adopted' } | { detail: string }

/**
 * A new role is unknown to the service for some seconds, so a refusal that may come from this is retried
 * until `roleUntil`.
 */
async function createOrAdopt(
  parts: ProvisionParts,
  row: WantedInterpreter,
  wish: InterpreterWish,
  roleUntil: number,
): Promise<Made> {
  for (;;) {
    try {
      return { ...(await parts.control.create(wish)), action: 'created' }
    } catch (error) {
      if (isAwsFailure(error, 'conflict')) return await adopt(parts, wish, error)
      const mayBeTheRole = isAwsFailure(error, 'invalid', 'denied') && Date.now() < roleUntil
      if (!mayBeTheRole) {
        if (roleUntil > 0 && isAwsFailure(error, 'invalid', 'denied')) await undoRole(parts, row)
        throw error
      }
    }
    await sleep(parts.config.poll_ms, undefined, { signal: parts.signal })
  }
}

/** Deletes a role whose interpreter was not created, unless the tenant's other interpreter uses it. */
async function undoRole(
  { rows, roles }: ProvisionParts,
  { tenant_id: tenantId }: WantedInterpreter,
): Promise<void> {
  const siblings = await rows.list({ tenantId })
  if (siblings.every(({ interpreter_id: id }) => id === null)) await roles.remove(tenantId)
}

async function adopt(
  { control }: ProvisionParts,
  { name }: InterpreterWish,
  refusal: AwsFailure,
): Promise<Made> {
  for await (const found of control.list())
    if (found.name === name && !ENDED.has(found.status))
      return { id: found.id, createdAtMs: found.createdAtMs, action: 'adopted' }
  // The previous interpreter of this name is still being deleted.
  return { detail: refusal.message }
}

/**
 * Waits until the interpreter is no longer CREATING, at most until `until`. Returns its last state; null if
 * the service does not show it.
 */
async function untilSettled(
  { control, config, signal }: ProvisionParts,
  id: string,
  until: number,
): Promise<InterpreterFacts | null> {
  for (;;) {
    const facts = await control.get(id)
    const isWaited = facts === null || facts.status === 'CREATING'
    if (!isWaited || Date.now() >= until) return facts
    await sleep(config.poll_ms, undefined, { signal })
  }
}

function lineOf(
  row: WantedInterpreter,
  state: ProvisionLine['state'],
  action: ProvisionLine['action'],
): ProvisionLine {
  const { tenant_id, environment, interpreter_id } = row
  return {
    tenant_id,
    environment,
    state,
    interpreter_id: state === 'provisioning' ? null : interpreter_id,
    action,
    detail: null,
  }
}

/** Properties to create a wanted interpreter with. */
function wishOf(
  config: AgentcoreProvisionConfig,
  row: WantedInterpreter,
  roleArn: string | null,
): InterpreterWish {
  const name = interpreterName(config.prefix, row.tenant_id, row.environment)
  const settings = { network: networkOf(config, row.environment), executionRoleArn: roleArn }
  return { name, ...settings, clientToken: creationToken(name, row.generation, settings) }
}

function networkOf(config: AgentcoreProvisionConfig, environment: Environment): InterpreterWish['network'] {
  if (environment === 'default-public') return { mode: 'PUBLIC' }
  const { internal_network: inner } = config
  if (inner === 'sandbox') return { mode: 'SANDBOX' }
  return { mode: 'VPC', subnets: inner.subnets, securityGroups: inner.security_groups }
}

/** Describes the first difference, or returns null. An interpreter cannot be changed, only created anew. */
function differs(
  config: AgentcoreProvisionConfig,
  row: WantedInterpreter,
  facts: InterpreterFacts,
  roleArn?: string | null,
): string | null {
  const { mode } = networkOf(config, row.environment)
  const again = `remove the tenant's interpreters (--remove) and provision again`
  if (facts.networkMode !== mode)
    return `its network mode is ${facts.networkMode}, configured is ${mode}: ${again}`
  const wanted = roleArn ?? (config.execution_role.startsWith('arn:') ? config.execution_role : null)
  const isRoleKnown = roleArn !== undefined || config.execution_role !== 'per-tenant'
  if (isRoleKnown && facts.executionRoleArn !== wanted)
    return `its role is ${facts.executionRoleArn ?? 'none'}, configured is ${wanted ?? 'none'}: ${again}`
  return null
}
