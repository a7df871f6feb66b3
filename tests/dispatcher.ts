/** Dispatchers of a fleet against the double of Managed Agents, for tests. */
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RunningDispatcher } from '@cofferdam/dispatcher'
import type { ManagedAgentsDouble } from '../infra/doubles/managed-agents/managed-agents-double.ts'
import type { Fleet, FleetWorker } from './fleet.ts'

const MAIN = new URL('../apps/dispatcher/src/main.ts', import.meta.url)

export interface DispatcherOptions {
  /** More settings of the environment (docs/configuration.md). */
  environment?: Record<string, unknown>
  /** Environments to serve instead of the double's first one, each with settings of its own. */
  environments?: readonly { id: string; key: string; settings?: Record<string, unknown> }[]
  env?: Record<string, string>
}

/**
 * A dispatcher in a process of its own, which serves the double's first environment, or others, as `acme`.
 */
export async function startDispatcher(
  fleet: Fleet,
  double: ManagedAgentsDouble,
  options: DispatcherOptions = {},
): Promise<FleetWorker> {
  return await fleet.startWorker(await environmentOf(fleet, double, options), MAIN)
}

/** The same in this process, for tests that neither kill it nor read its log (run-here.ts). */
export async function runDispatcher(
  fleet: Fleet,
  double: ManagedAgentsDouble,
  options: DispatcherOptions = {},
): Promise<RunningDispatcher> {
  return await fleet.runDispatcher(await environmentOf(fleet, double, options))
}

/** Writes the configuration file. Resolves with the environment that names it. */
async function environmentOf(
  fleet: Fleet,
  double: ManagedAgentsDouble,
  {
    environment = {},
    environments = [{ id: double.environmentId, key: double.environmentKey, settings: environment }],
    env = {},
  }: DispatcherOptions,
): Promise<Record<string, string>> {
  const folder = await mkdtemp(join(fleet.dataDir, 'dispatcher-'))
  const file = join(folder, 'cofferdam.config.yaml')
  const served = environments.map(({ id, key, settings }) => ({
    key,
    keyFile: join(folder, id),
    id,
    settings,
  }))
  for (const { key, keyFile } of served) await writeFile(keyFile, `${key}\n`, { mode: 0o600 })
  const sections = served.map(({ id, keyFile, settings }) => ({
    id,
    tenant_id: 'acme',
    key_file: keyFile,
    base_url: double.url,
    limits: { memory_mib: 64 },
    ...settings,
  }))
  // JSON is YAML.
  await writeFile(file, JSON.stringify({ dispatcher: { environments: sections } }))
  // A test that fails must not wait for turns that never end.
  return { COFFERDAM_CONFIG: file, COFFERDAM_DRAIN_MS: '5000', ...env }
}
