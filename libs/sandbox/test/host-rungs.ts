/**
 * Helpers for conformance tests of host backends: a backend with one kind of jail (its rung), and kills from
 * outside.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import type { Backend, Sandbox, WorkerId } from '@cofferdam/contract'
import { warmSlots, type ExerciseOptions } from '../conformance/index.ts'
import { SILENT } from '../src/deps.ts'
import { noneConfigSchema } from '../src/none/config.ts'
import { createBackend as createNone } from '../src/none/index.ts'
import { processConfigSchema } from '../src/process/config.ts'
import { createBackend as createProcess } from '../src/process/index.ts'
import { temporaryFolder } from '@cofferdam/embedded/testing'

/** A runtime folder for this run, removed at its end. */
export const runtimeFolder = (): string => temporaryFolder('rung', 0o755)

/**
 * Factory and options for `exerciseBackend`; the run's folder is removed at its end. With `options.warmOwner`
 * the backend has pools, and leftover records and uids are checked. Cgroups are checked by the IDs of this
 * run's slots.
 */
export function onRung(
  rung: 'bwrap' | 'self' | 'plain' | 'none',
  options: ExerciseOptions = {},
  settings: { namespaces?: boolean; cgroups?: boolean } = {},
): [() => Promise<Backend>, ExerciseOptions] {
  const runtimeDir = runtimeFolder()
  const { warmOwner } = options
  // If a cell ends early, the test only sees another session. The reason is in the log.
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
    // The folder must exist early: the suite asks the backend for its capabilities while it collects the
    // tests.
    mkdirSync(runtimeDir, { recursive: true, mode: 0o755 })
    const backend = await create()
    const open = backend.open.bind(backend)
    backend.open = async (spec, signal) => {
      try {
        return await open(spec, signal)
      } finally {
        // Includes slots that wait in pools or are starting.
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

/** Folders of a slot's cgroup in every hierarchy, where a worker in this process's group creates them. */
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

/** Uids held by slots of this runtime folder. */
export const uidsInUse = (runtimeDir: string): string[] => namesIn(join(runtimeDir, 'uids'))

/** Which of these slots hold a uid. */
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

/** Kills the first process of a sandbox, like an operator or the kernel. */
export async function killAgent(sandbox: Sandbox): Promise<void> {
  process.kill(Number(sandbox.ref.handle['pid']), 'SIGKILL')
}
