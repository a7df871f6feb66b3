import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Backend } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { exerciseBackend, type ExerciseOptions } from '@cofferdam/sandbox/conformance'
import { defaultRuntimeDir } from '@cofferdam/sandbox/backend'
import { createMicrovmBackend } from './index.ts'

/** The default folder. It has a template: scripts/machine-parts.ts tried this backend before the tests. */
const runtime_dir = defaultRuntimeDir()
/** On a busy machine an emulated kernel takes longer to boot than the suite waits for a probe. */
const BOOT_MS = 400_000

const factory = (): Promise<Backend> => createMicrovmBackend({ runtime_dir })

if (needs('microvm').lacking === null) {
  await using first = await factory()
  await first.probe(AbortSignal.timeout(BOOT_MS))
}

/** Processes of QEMU by the name that this backend gives them. */
async function machinesOf(isWanted: (name: string) => boolean): Promise<{ pid: number; name: string }[]> {
  const found: { pid: number; name: string }[] = []
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    const line = await readFile(`/proc/${entry}/cmdline`, 'latin1').catch(() => '')
    const [, name] = /\0cofferdam-(sbx_[0-9a-f]+)\0/.exec(line) ?? []
    if (name !== undefined && isWanted(name)) found.push({ pid: Number(entry), name })
  }
  return found
}

const options: ExerciseOptions = {
  needs: ['microvm'],
  leftovers: async (owner) => await readdir(join(runtime_dir, 'microvm/machines', owner)).catch(() => []),
  destroyUnderneath: async (sandbox) => {
    const slot = String(sandbox.ref.handle['slot'])
    for (const { pid } of await machinesOf((name) => name === slot)) process.kill(pid, 'SIGKILL')
  },
  visibleOnHost: false,
  // Long, because everything is emulated on a host without hardware virtualisation.
  testMs: 180_000,
}

/**
 * Other backends with the same agent test the other themes. An emulated machine costs a second, with a
 * network two.
 */
const shortThemes = ['lifecycle', 'separation'] as const

await exerciseBackend('microvm', factory, { ...options, shortThemes })
