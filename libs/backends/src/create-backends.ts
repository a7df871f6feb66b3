/** Makes the configured backends, in the order of the config's keys. */
import { type Backend, CofferdamError } from '@cofferdam/contract'
import type { BackendsConfigInput } from './config.ts'
import { BACKENDS, isBackendName, type BackendDeps } from './registry.ts'

/**
 * Loads and makes every backend whose key is in `config`; the map keeps that order. Making one talks to
 * nothing outside: whether it can run here is what `probe` answers. The caller disposes them. Throws
 * `backend_unknown` for a name that the registry lacks, and what a config schema throws; then disposes those
 * that were made before.
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
