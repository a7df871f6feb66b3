/**
 * What a worker mounts: the pool that the settings name, and the switch that can refuse it. Both are read for
 * each execution that would use the pool, so a change needs no restart.
 */
import type { BackendsConfigInput, FleetPool } from '@cofferdam/backends'
import type { Store } from '@cofferdam/store'
import type { Redis } from 'ioredis'
import { createSandboxSwitch, type SandboxSwitch } from './sandbox-switch.ts'
import { createSandboxConfigs, type SandboxConfigs } from './settings-table.ts'

/** The backend that Polyclaw's sandbox runs on. */
export const BACKEND = 'azure'

export interface ProvisionedPool extends FleetPool {
  /** Executions that open from now on use this endpoint. */
  allow(endpoint: string): void
}

export interface WorkerPart {
  /** For `createBackends`. Empty when the worker's own configuration decides. */
  backendDeps: { fleetPool?: FleetPool }
  /** The switches that may refuse a backend, by its name. */
  switches: ReadonlyMap<string, SandboxSwitch>
}

/** Creates the part for one worker. It reads the settings only when an execution needs them. */
export function createWorkerPart(deps: {
  backends: BackendsConfigInput
  store: Pick<Store, 'fleetTables'>
  redis: Redis
  onError(this: void, error: unknown): void
}): WorkerPart {
  const configs = createSandboxConfigs(deps.store)
  const pool = provisionedPool(deps.backends, configs)
  if (pool === null) return { backendDeps: {}, switches: new Map() }
  const gate = createSandboxSwitch({
    redis: deps.redis,
    read: async () => (await configs.get()).settings,
    allow: (endpoint) => pool.allow(endpoint),
    onError: deps.onError,
  })
  return { backendDeps: { fleetPool: pool }, switches: new Map([[BACKEND, gate]]) }
}

/** Null when the backend is absent or disabled, or when the worker's own configuration names its pool. */
export function provisionedPool(
  { azure }: BackendsConfigInput,
  configs: Pick<SandboxConfigs, 'get'>,
): ProvisionedPool | null {
  const isOpen =
    azure?.enabled === true &&
    azure.container_endpoint === undefined &&
    azure.interpreter_endpoint === undefined
  if (!isOpen) return null
  let allowed = ''
  return {
    configured: async () => (await configs.get()).settings.session_pool_endpoint,
    get allowed() {
      return allowed
    },
    allow(endpoint) {
      allowed = endpoint
    },
  }
}
