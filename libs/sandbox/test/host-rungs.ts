/** What the conformance tests of host backends share: a backend on one rung, and kills from outside. */
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Backend, Sandbox, WorkerId } from '@cofferdam/contract'
import { afterAll } from 'vitest'
import { warmSlots, type ExerciseOptions } from '../conformance/index.ts'
import { SILENT } from '../src/deps.ts'
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
 * Factory and options for `exerciseBackend`; the folder of the run is removed at its end. With
 * `options.warmOwner` the backend gets pools, and what they leave of records and uids is looked for. Cgroups
 * are looked for by the ids of this run's own slots.
 */
export function onRung(
  rung: 'bwrap' | 'self' | 'plain' | 'none',
  options: ExerciseOptions = {},
  settings: { namespaces?: boolean; cgroups?: boolean } = {},
): [() => Promise<Backend>, ExerciseOptions] {
  const runtimeDir = runtimeFolder()
  const { warmOwner } = options
  // A cell that ends early shows only as another session; the log says why.
  const logger = { ...SILENT, warn: (fields: object, message: string) => console.warn(message, fields) }
  const deps = { logger, ...(warmOwner === undefined ? {} : { warm: warmSlots(warmOwner) }) }
  const records = join(runtimeDir, 'sandboxes', rung === 'none' ? 'none' : 'process')
  const recorded = (owner: WorkerId): string[] => namesIn(join(records, owner))
  const slots = new Set<string>()
  const create = (): Promise<Backend> =>
    rung === 'none'
      ? createNone(noneConfigSchema.parse({ runtime_dir: runtimeDir }), deps)
      : createProcess(processConfigSchema.parse({ runtime_dir: runtimeDir, jail: rung, ...settings }), deps)
  const factory = async (): Promise<Backend> => {
    const backend = await create()
    const open = backend.open.bind(backend)
    backend.open = async (spec, signal) => {
      try {
        return await open(spec, signal)
      } finally {
        // Also those that wait in pools, and one that is just starting.
        for (const slot of recorded(spec.owner)) slots.add(slot)
      }
    }
    return backend
  }
  const leftovers = (owner: WorkerId): Promise<string[]> => {
    const waiting = new Set(recorded(owner))
    const groups = [...slots].filter((slot) => !waiting.has(slot)).flatMap(cgroupsNamed)
    return Promise.resolve([...waiting, ...groups])
  }
  return [factory, { leftovers, ...options }]
}

/** Folders of a slot's cgroup, in every hierarchy, where a worker in this process's groups makes them. */
function cgroupsNamed(slot: string): string[] {
  const lines = readFileSync('/proc/self/cgroup', 'utf8').split('\n')
  return lines
    .map((line) => line.split(':'))
    .filter((fields) => fields.length >= 3)
    .map(([, controllers = '', ...path]) =>
      join('/sys/fs/cgroup', controllers, path.join(':'), 'cofferdam', slot),
    )
    .filter((folder) => existsSync(folder))
}

/** Uids that slots of this runtime folder hold. */
export const uidsInUse = (runtimeDir: string): string[] => namesIn(join(runtimeDir, 'uids'))

/** The slots among these that hold a uid. */
export function holdersOfUids(runtimeDir: string, slots: string[]): string[] {
  const holders = uidsInUse(runtimeDir).map((uid) => readlinkSync(join(runtimeDir, 'uids', uid)))
  return holders.filter((slot) => slots.includes(slot))
}

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
