/** What the conformance tests of host backends share: a backend on one rung, and kills from outside. */
import { mkdtempSync, chmodSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Backend, Sandbox, WorkerId } from '@cofferdam/contract'
import { afterAll } from 'vitest'
import { warmPlaces, type ExerciseOptions } from '../conformance/index.ts'
import { noneConfigSchema } from '../src/none/config.ts'
import { createBackend as createNone } from '../src/none/index.ts'
import { processConfigSchema } from '../src/process/config.ts'
import { createBackend as createProcess } from '../src/process/index.ts'

/** A runtime folder of this run's own, removed at its end. */
export function runtimeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-rung-'))
  chmodSync(folder, 0o755)
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/**
 * Factory and options for `exerciseBackend`; the folder of the run is removed at its end. With `options.warmOwner` the backend gets
 * pools, and what they leave of records and uids is looked for.
 */
export function onRung(
  rung: 'bwrap' | 'self' | 'plain' | 'none',
  options: ExerciseOptions = {},
  settings: { namespaces?: boolean; cgroups?: boolean } = {},
): [() => Promise<Backend>, ExerciseOptions] {
  const runtimeDir = runtimeFolder()
  const { warmOwner } = options
  const deps = warmOwner === undefined ? {} : { warm: warmPlaces(warmOwner) }
  const factory = (): Promise<Backend> =>
    rung === 'none'
      ? createNone(noneConfigSchema.parse({ runtime_dir: runtimeDir }), deps)
      : createProcess(processConfigSchema.parse({ runtime_dir: runtimeDir, jail: rung, ...settings }), deps)
  const leftovers = (owner: WorkerId): Promise<string[]> =>
    Promise.resolve(namesIn(join(runtimeDir, 'sandboxes', rung === 'none' ? 'none' : 'process', owner)))
  return [factory, { leftovers, ...options }]
}

/** Uids that slots of this runtime folder hold. */
export const uidsInUse = (runtimeDir: string): string[] => namesIn(join(runtimeDir, 'uids'))

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

/** Kills the first process of a sandbox, as an operator or the kernel might. */
export async function killAgent(sandbox: Sandbox): Promise<void> {
  process.kill(Number(sandbox.ref.handle['pid']), 'SIGKILL')
}
