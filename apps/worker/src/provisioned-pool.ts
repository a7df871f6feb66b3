/**
 * The pool that the API keeps (POST /api/sandbox/provision or /config): where the `azure` backend goes when it is enabled and
 * its own section names no pool. Read whenever something would run there, so that a change holds without a restart.
 */
import type { BackendsConfigInput, FleetPool } from '@cofferdam/backends'
import type { SandboxConfigs } from '@cofferdam/store'

export interface ProvisionedPool extends FleetPool {
  /** What opens next uses this one: Polyclaw's switch has let it through. */
  allow(endpoint: string): void
}

/** Null when the backend is absent, off, or has a pool of its own: then the switch is not Polyclaw's either. */
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
