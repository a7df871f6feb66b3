/**
 * Each tenant's own code interpreter. Provisioning (./provision) creates interpreters and writes their IDs to
 * Postgres. The worker gives the backend this view of them, so the backend knows no database.
 *
 * Unless the configuration names interpreters for all tenants, no program runs in another tenant's
 * interpreter or in the service's shared one. A tenant without an interpreter is refused with
 * `interpreter_not_ready` before anything starts, and is not charged.
 */
import {
  assertNever,
  CofferdamError,
  isCofferdamError,
  type Environment,
  type Network,
} from '@cofferdam/contract'
import type { AgentcoreConfig } from './config.ts'

/** The backend's view of provisioning; `AgentcoreDeps.interpreters`. */
export interface Interpreters {
  /** ID at the service (`<name>-<10 characters>`); null if there is none. Throws `store_unavailable`. */
  find(tenantId: string, environment: Environment): Promise<string | null>
  /**
   * Reports that the service no longer knows interpreter `id`, so that the reconciler creates a new one. Must
   * not be called for a missing session. Does nothing if another ID is on record or if `id` is new.
   */
  forget(tenantId: string, environment: Environment, id: string): Promise<void>
  /**
   * All recorded IDs, to find sessions of dead workers. If absent, only configured interpreters and those
   * that this worker used are searched.
   */
  all?(): Promise<readonly string[]>
}

/**
 * The environment that a program needs. A PUBLIC interpreter cannot withhold the network from a program, so a
 * program without network always gets `internal-only`, whatever environment the template names.
 */
export function environmentFor(network: Network): Environment {
  return network === 'none' ? 'internal-only' : 'default-public'
}

/**
 * Interpreters for a policy's environments. Programs of `default-public` without network run in
 * `internal-only`.
 */
export function interpretersFor(environments: readonly Environment[]): Environment[] {
  if (environments.includes('default-public')) return ['default-public', 'internal-only']
  return [...new Set(environments)]
}

/**
 * Returns the tenant's interpreter. Throws what `find` throws, and `interpreter_not_ready`, which does not
 * count for the backend's circuit breaker and lets `auto` try the next backend.
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

/** Interpreters in the configuration serve every tenant. Otherwise each tenant has its own. */
export function configuredFirst(settings: AgentcoreConfig, tenants: Interpreters | undefined): Interpreters {
  return {
    find: async (tenantId, environment) =>
      settings.interpreters[environment] ?? (await tenants?.find(tenantId, environment)) ?? null,
    async forget(tenantId, environment, id) {
      if (settings.interpreters[environment] === undefined) await tenants?.forget(tenantId, environment, id)
    },
  }
}

/**
 * If Start found no interpreter, forgets the tenant's, so that the reconciler creates another. Returns the
 * error to throw.
 */
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
