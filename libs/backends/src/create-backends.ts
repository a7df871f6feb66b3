/** Creates the configured backends, in the order of the configuration. */
import { type Backend, CofferdamError } from '@cofferdam/contract'
import type { BackendsConfigInput } from './config.ts'
import { BACKENDS, isBackendName, type BackendDeps } from './registry.ts'

/**
 * Loads and creates every backend with a key in `config`, in that order. Sends no requests: `probe` tells
 * whether a backend can run here. The caller disposes them. Throws `backend_unknown` for an unknown name, and
 * errors of config schemas, after it disposed the backends created before.
 */
export async function createBackends(
  config: BackendsConfigInput,
  deps: BackendDeps = {},
): Promise<Map<string, Backend>> {
  const made = new Map<string, Backend>()
  try {
    for (const [name, section] of Object.entries(config)) {
      if (section === undefined) continue
      if (!isBackendName(name)) {
        const known = Object.keys(BACKENDS).join(', ')
        throw new CofferdamError('backend_unknown', `There is no backend "${name}". Known are: ${known}.`)
      }
      made.set(name, await BACKENDS[name].create(section, deps, name))
    }
    return made
  } catch (error) {
    await Promise.allSettled([...made.values()].map((backend) => backend[Symbol.asyncDispose]()))
    throw error
  }
}
