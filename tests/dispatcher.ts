/** Starts dispatchers of a fleet against the double of Managed Agents, for tests. */
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ManagedAgentsDouble } from '../infra/doubles/managed-agents/managed-agents-double.ts'
import type { Fleet, FleetWorker } from './fleet.ts'

const MAIN = new URL('../apps/dispatcher/src/main.ts', import.meta.url)

export interface DispatcherOptions {
  /** More settings of the environment (docs/configuration.md). */
  environment?: Record<string, unknown>
  env?: Record<string, string>
}

/** A dispatcher in a process of its own, which serves the double's first environment for tenant `acme`. */
export async function startDispatcher(
  fleet: Fleet,
  double: ManagedAgentsDouble,
  { environment = {}, env = {} }: DispatcherOptions = {},
): Promise<FleetWorker> {
  const folder = await mkdtemp(join(fleet.dataDir, 'dispatcher-'))
  const file = join(folder, 'cofferdam.config.yaml')
  const key = join(folder, 'environment-key')
  await writeFile(key, `${double.environmentKey}\n`, { mode: 0o600 })
  const served = {
    id: double.environmentId,
    tenant_id: 'acme',
    key_file: key,
    base_url: double.url,
    limits: { memory_mib: 64 },
    ...environment,
  }
  // JSON is YAML.
  await writeFile(file, JSON.stringify({ dispatcher: { environments: [served] } }))
  // A test that fails must not wait for turns that never end.
  return await fleet.startWorker({ COFFERDAM_CONFIG: file, COFFERDAM_DRAIN_MS: '5000', ...env }, MAIN)
}
