/**
 * Which code interpreter at the service is a tenant's own. Provisioning (./provision) makes them and writes their ids to
 * Postgres; the worker lends the data plane this view of them, so that the backend itself knows no database.
 *
 * Nothing runs in another tenant's interpreter, nor in the service's shared one: a tenant without an interpreter of its
 * own is refused (`interpreter_not_ready`) before anything is started, and is not charged.
 */
import {
  assertNever,
  CofferdamError,
  isCofferdamError,
  type Environment,
  type Network,
} from '@cofferdam/contract'
import type { AgentcoreConfig } from './config.ts'

/** What the backend asks of provisioning; `BackendDeps.interpreters`. */
export interface Interpreters {
  /** Id at the service (`<name>-<10 characters>`); null when there is none (yet). Throws `store_unavailable`. */
  find(tenantId: string, environment: Environment): Promise<string | null>
  /**
   * The service does not know `id` any more (ResourceNotFoundException of an interpreter, not of a session): the next
   * round of the reconciler makes a new one. Does nothing when another id is on record by now.
   */
  forget(tenantId: string, environment: Environment, id: string): Promise<void>
  /** Every id on record: what a dead worker left is looked for there. Left out: only where this worker ran something. */
  all?(): Promise<readonly string[]>
}

/**
 * The interpreter that a program needs. A PUBLIC interpreter cannot take the network away from a program, so that whoever
 * asks for none gets the one without, whatever environment the template names.
 */
export function environmentFor(network: Network): Environment {
  return network === 'none' ? 'internal-only' : 'default-public'
}

/** The interpreters of a tenant whose policy names these environments: programs without network may come in each of them. */
export function interpretersFor(environments: readonly Environment[]): Environment[] {
  if (environments.includes('default-public')) return ['default-public', 'internal-only']
  return [...new Set(environments)]
}

/**
 * The tenant's interpreter. Throws `interpreter_not_ready`, which leaves the backend's circuit alone and lets `auto` try the
 * next backend, and what `find` throws.
 */
export async function requireInterpreter(
  interpreters: Interpreters | undefined,
  tenantId: string,
  environment: Environment,
): Promise<string> {
  const id = (await interpreters?.find(tenantId, environment)) ?? null
  if (id !== null) return id
  throw new CofferdamError(
    'interpreter_not_ready',
    `Tenant ${tenantId} has no ${environment} code interpreter (${networkOf(environment)}) yet; try again in 30 s.`,
    { details: { environment, retry_after_ms: 30_000 } },
  )
}

function networkOf(environment: Environment): string {
  switch (environment) {
    case 'default-public':
      return 'with network'
    case 'internal-only':
      return 'without network'
    default:
      return assertNever(environment)
  }
}

/** Interpreters that the configuration names serve every tenant; else each has its own. */
export function configuredFirst(settings: AgentcoreConfig, tenants: Interpreters | undefined): Interpreters {
  return {
    find: async (tenantId, environment) =>
      settings.interpreters[environment] ?? (await tenants?.find(tenantId, environment)) ?? null,
    async forget(tenantId, environment, id) {
      if (settings.interpreters[environment] === undefined) await tenants?.forget(tenantId, environment, id)
    },
  }
}

/** A Start that finds no interpreter: the tenant's is gone, and the reconciler is to make another. */
export async function interpreterGone(
  error: unknown,
  interpreters: Interpreters,
  { tenantId, environment, interpreter }: { tenantId: string; environment: Environment; interpreter: string },
): Promise<unknown> {
  if (!isCofferdamError(error) || error.details['reason'] !== 'session_start:ResourceNotFoundException')
    return error
  await interpreters.forget(tenantId, environment, interpreter)
  return new CofferdamError('interpreter_not_ready', `The code interpreter of tenant ${tenantId} is gone.`, {
    cause: error,
    details: { environment, retry_after_ms: 30_000 },
  })
}
