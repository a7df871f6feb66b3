/**
 * The whole conformance suite on the engine `firecracker`, with the double in place of `firecracker` and
 * `jailer`. Each machine is a QEMU machine that listens on vsock.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { exerciseBackend } from '@cofferdam/sandbox/conformance'
import { afterAll, expect } from 'vitest'
import { jailId } from '../src/firecracker/jail.ts'
import { createMicrovmBackend } from '../src/index.ts'
import { processesWith } from './firecracker-host.ts'
import { firecrackerMachines } from './firecracker-machines.ts'

const PARTS = ['microvm', 'root', 'mounts', 'setpriv', 'cgroups'] as const
const NAME = 'microvm on the double of Firecracker'
/** An emulated kernel may boot for minutes on a busy machine. */
const BOOT_MS = 400_000

if (needs(...PARTS).lacking === null) {
  const machines = await firecrackerMachines()
  const { chrootBase } = machines
  await using first = await createMicrovmBackend(machines.config)
  await first.probe(AbortSignal.timeout(BOOT_MS))
  await exerciseBackend(NAME, () => createMicrovmBackend(machines.config, {}, NAME), {
    leftovers: async (owner) => {
      const records = join(chrootBase, 'state/microvm/machines', owner)
      return existsSync(records) ? readdirSync(records) : []
    },
    destroyUnderneath: async (sandbox) => {
      const jail = jailId('clone', String(sandbox.ref.handle['slot']))
      for (const line of processesWith(`${chrootBase}/firecracker/${jail}`))
        process.kill(Number(line.split(' ')[1]), 'SIGKILL')
    },
    visibleOnHost: false,
    // Some tests open dozens of machines.
    testMs: 1_200_000,
  })
  afterAll(async () => {
    const left = machines.left()
    await machines[Symbol.asyncDispose]()
    expect(left).toEqual([])
  })
} else needs(...PARTS).it(NAME, () => {})
