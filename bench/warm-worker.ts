/** Starts a fleet worker with the warm pools that a phase needs. */
import { mkdtemp, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { FleetWorker } from '../tests/fleet.ts'
import type { BenchContext } from './report.ts'

export interface WarmWorkerOptions {
  backends: readonly string[]
  slots?: number
  /** The `warm` section of cofferdam.config.yaml. */
  warm?: object
  /** Additional variables of its environment. */
  env?: Record<string, string>
}

/** Writes the configuration as JSON, which is YAML. */
export async function startWarmWorker(
  { fleet }: BenchContext,
  { backends, slots = 4, warm = {}, env = {} }: WarmWorkerOptions,
): Promise<FleetWorker> {
  const folder = await mkdtemp(path.join(fleet.dataDir, 'config-'))
  const file = path.join(folder, 'cofferdam.config.yaml')
  await writeFile(file, JSON.stringify({ warm }))
  return await fleet.startWorker({
    COFFERDAM_CONFIG: file,
    COFFERDAM_BACKENDS: backends.join(','),
    COFFERDAM_SLOTS: String(slots),
    ...env,
  })
}
