/**
 * Provisioning at AgentCore: creates, checks, forgets and collects tenants' interpreters. OPERATIONS.md says
 * which rights it needs. Loads no SDK before the first call.
 */
import { CofferdamError, type Environment } from '@cofferdam/contract'
import { isAwsFailure } from './aws-failure.ts'
import { collectGarbage, type FoundGarbage, type GarbageLine } from './collect-garbage.ts'
import { agentcoreProvisionConfigSchema, type AgentcoreProvisionConfig } from './config.ts'
import { openControlPlane, type ControlPlane } from './control-plane.ts'
import { interpreterName } from './interpreter-name.ts'
import type { InterpreterRows, WantedInterpreter } from './interpreter-rows.ts'
import { provisionInterpreter, type ProvisionLine, type ProvisionParts } from './provision-interpreter.ts'
import { createTenantRoles } from './tenant-roles.ts'

export { agentcoreProvisionConfigSchema, type AgentcoreProvisionConfig }
export type { GarbageLine, ProvisionLine }

export interface ProvisionReport {
  interpreters: ProvisionLine[]
  /** Null if no search for garbage was made. */
  garbage: GarbageLine[] | null
}

export interface ReconcileOptions {
  /**
   * Only this tenant's interpreters. Garbage belongs to no tenant, so this does not limit the search for it.
   */
  tenantId?: string
  /** Interpreters to request before the round, in addition to those requested earlier. */
  request?: readonly { tenantId: string; environments: readonly Environment[] }[]
  /** Reports what the round would do, and changes nothing here or at the service. */
  dryRun?: boolean
  /**
   * `keep`: no search for interpreters that no row names. `look`: only a search. `delete`: deletes those
   * found, unless they are younger than an hour or a row waits for their name. A function chooses which of
   * these to delete.
   */
  garbage?: 'keep' | 'look' | 'delete' | ((found: FoundGarbage) => boolean)
  signal?: AbortSignal
}

export interface AgentcoreProvisioner extends AsyncDisposable {
  /**
   * One round: creates what is missing and forgets IDs that the service no longer knows. Null if another
   * process runs a round. Throws `store_unavailable`. The report's lines hold what AWS refuses. In the search
   * for garbage, AWS's errors throw `backend_unavailable`, except for an interpreter in use.
   */
  reconcile(options?: ReconcileOptions): Promise<ProvisionReport | null>
  /**
   * Deletes a tenant's interpreters, role and rows. Returns the interpreters' IDs. Returns null and throws
   * like `reconcile`.
   */
  remove(tenantId: string, signal?: AbortSignal): Promise<string[] | null>
}

export interface ProvisionerDeps {
  rows: InterpreterRows
  /** Name of the caller in the database's events. */
  actor: string
}

/** Tenants at once. The service takes 5 creations per second, and each is followed by some reads. */
const TENANTS_AT_ONCE = 4

/** Makes no request. */
export function createAgentcoreProvisioner(
  settings: AgentcoreProvisionConfig,
  { rows, actor }: ProvisionerDeps,
): AgentcoreProvisioner {
  const config = agentcoreProvisionConfigSchema.parse(settings)
  const roles = createTenantRoles(config)
  let opened: Promise<ControlPlane> | undefined
  const partsOf = async (signal: AbortSignal): Promise<ProvisionParts> => ({
    config,
    control: await (opened ??= openControlPlane(config)),
    roles,
    rows,
    actor,
    signal,
  })

  return {
    reconcile: ({ tenantId, request = [], dryRun = false, garbage = 'keep', signal = never() } = {}) =>
      inTurn(rows, async () => {
        const parts = await partsOf(signal)
        if (!dryRun) for (const wish of request) await rows.request(wish.tenantId, wish.environments, actor)
        const wanted = await allRows(rows, tenantId)
        const interpreters = await provisionAll(parts, wanted, dryRun)
        if (dryRun) interpreters.push(...notRequested(request, wanted))
        if (garbage === 'keep') return { interpreters, garbage: null }
        const mayDelete = typeof garbage === 'function' ? garbage : () => garbage === 'delete'
        const everybody = await allRows(rows)
        const found = await collectGarbage(parts, everybody, (one) => !dryRun && mayDelete(one))
        return { interpreters, garbage: found }
      }),
    remove: (tenantId, signal = never()) =>
      inTurn(rows, async () => {
        const parts = await partsOf(signal)
        const gone = await deleteOf(parts, tenantId)
        await roles.remove(tenantId)
        await rows.remove(tenantId, actor)
        return gone
      }),
    async [Symbol.asyncDispose]() {
      if (opened !== undefined) (await opened)[Symbol.dispose]()
      await roles[Symbol.asyncDispose]()
    },
  }
}

/**
 * Runs `work` unless another process runs a round; null then. Turns AWS's errors into ours with AWS's text,
 * which names actions and ARNs for operators.
 */
async function inTurn<T>(rows: InterpreterRows, work: () => Promise<T>): Promise<T | null> {
  try {
    return await rows.inTurn(work)
  } catch (error) {
    if (!isAwsFailure(error)) throw error
    throw new CofferdamError('backend_unavailable', `AgentCore: ${error.message}`, { cause: error })
  }
}

async function allRows(rows: InterpreterRows, tenantId?: string): Promise<WantedInterpreter[]> {
  if (tenantId !== undefined) return await rows.list({ tenantId })
  const all: WantedInterpreter[] = []
  for (;;) {
    const last = all.at(-1)
    const page = await rows.list(last === undefined ? {} : { after: last })
    if (page.length === 0) return all
    all.push(...page)
  }
}

/** A tenant's interpreters come one after the other, because they share a role. */
async function provisionAll(
  parts: ProvisionParts,
  wanted: readonly WantedInterpreter[],
  dryRun: boolean,
): Promise<ProvisionLine[]> {
  const tenants = [...Map.groupBy(wanted, (row) => row.tenant_id).values()]
  const lines: ProvisionLine[][] = []
  let next = 0
  const work = async (): Promise<void> => {
    for (let mine = next++; mine < tenants.length; mine = next++) {
      const done: ProvisionLine[] = []
      for (const row of tenants[mine] ?? []) {
        parts.signal.throwIfAborted()
        done.push(await provisionInterpreter(parts, row, dryRun))
      }
      lines[mine] = done
    }
  }
  // Waits for all of them: the next process may begin when the round has ended.
  const ended = await Promise.allSettled(Array.from({ length: TENANTS_AT_ONCE }, work))
  for (const one of ended) if (one.status === 'rejected') throw one.reason
  return lines.flat()
}

function notRequested(
  request: NonNullable<ReconcileOptions['request']>,
  wanted: readonly WantedInterpreter[],
): ProvisionLine[] {
  return request.flatMap(({ tenantId, environments }) =>
    environments
      .filter(
        (environment) => !wanted.some((row) => row.tenant_id === tenantId && row.environment === environment),
      )
      .map((environment) => ({
        tenant_id: tenantId,
        environment,
        state: 'not-requested' as const,
        interpreter_id: null,
        action: 'would-create' as const,
        detail: null,
      })),
  )
}

/** Deletes by name and not by row, which also finds interpreters that were never written down. */
async function deleteOf({ control, config, signal }: ProvisionParts, tenantId: string): Promise<string[]> {
  const names = (['default-public', 'internal-only'] as const).map((environment) =>
    interpreterName(config.prefix, tenantId, environment),
  )
  const gone: string[] = []
  for await (const { id, name, status } of control.list()) {
    signal.throwIfAborted()
    if (!names.includes(name) || status === 'DELETED') continue
    try {
      if (status !== 'DELETING') await control.delete(id)
    } catch (error) {
      // Being deleted by somebody else is fine; being in use is not.
      if (!isAwsFailure(error, 'gone')) throw error
    }
    gone.push(id)
  }
  return gone
}

const never = (): AbortSignal => new AbortController().signal
