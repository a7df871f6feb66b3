/**
 * The pool that the API keeps (POST /api/sandbox/provision or /config): where the `azure` backend goes when it is enabled and
 * its own section names no pool. Read once, when the worker starts.
 */
import type { BackendsConfigInput } from '@cofferdam/backends'
import type { SandboxConfigs } from '@cofferdam/store'

export interface WithPool {
  sections: BackendsConfigInput
  /** The pool that was taken; null when none was. What uses it obeys Polyclaw's switch. */
  endpoint: string | null
}

/** The sections with the pool's endpoint. Where Postgres is away they stay as they are, and the backend's probe says what is missing. */
export async function withProvisionedPool(
  backends: BackendsConfigInput,
  configs: Pick<SandboxConfigs, 'get'>,
  onError: (error: unknown) => void,
): Promise<WithPool> {
  const without = { sections: backends, endpoint: null }
  const { azure } = backends
  const isOpen =
    azure?.enabled === true &&
    azure.container_endpoint === undefined &&
    azure.interpreter_endpoint === undefined
  if (!isOpen) return without
  try {
    const { session_pool_endpoint: endpoint } = (await configs.get()).settings
    if (endpoint === '') return without
    // Provisioned pools are PythonLTS; a pool of another kind is named in the section.
    return { sections: { ...backends, azure: { ...azure, interpreter_endpoint: endpoint } }, endpoint }
  } catch (error) {
    onError(error)
    return without
  }
}
