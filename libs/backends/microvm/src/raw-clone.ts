/**
 * A clone by the engine alone: no record, cgroup, pool, slot or sandbox. It is the base that bench/ compares
 * this backend with.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSandboxId, newWorkerId, type Program } from '@cofferdam/contract'
import { SILENT } from '@cofferdam/sandbox/backend'
import { createGuestSession } from '@cofferdam/sandbox/guest'
import type { SlotLimits } from '@cofferdam/sandbox/warm'
import { microvmConfigSchema } from './config.ts'
import { createControlChannel } from './control-channel.ts'
import { AGENT_PORT, CONTROL_PORT } from './engine.ts'
import { findImage, IMAGE_CACHE } from './image.ts'
import { createQemuEngine } from './qemu/index.ts'
import { createTemplates } from './templates.ts'
import { thawWords } from './thaw.ts'

export interface RawClones extends AsyncDisposable {
  /** How long it took to boot, to save, and to check what was saved. */
  readonly templateMs: number
  /** Runs `program` in a new clone until it exits, and kills the clone. `restoredMs`: until the guest ran. */
  once(program: Program, expected: string): Promise<{ restoredMs: number; gone: Promise<void> }>
}

/** Makes a template of its own. Throws if this host has no image or cannot boot it. */
export async function openRawClones(limits: SlotLimits): Promise<RawClones> {
  const { accelerator, qemu, uid } = microvmConfigSchema.parse({})
  const engine = await createQemuEngine({ binary: qemu, accelerator, uid })
  const image = await findImage(IMAGE_CACHE, 'slim')
  if (image === null) throw new Error('there is no image: npm run image -- --microvm')
  const folder = await mkdtemp(join(tmpdir(), 'cofferdam-raw-'))
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true })
  const parts = { engine, image: async () => image, folder: async () => folder, logger: SILENT }
  const startedMs = performance.now()
  const template = await createTemplates(parts)
    .get(limits)
    .catch(async (error: unknown) => {
      await remove()
      throw error
    })
  const templateMs = performance.now() - startedMs
  return {
    templateMs,
    async once(program, expected) {
      const { signal } = new AbortController()
      const lease = { folder, id: newSandboxId(), started: async () => {} }
      const beganMs = performance.now()
      const machine = await engine.restore(template, lease, signal)
      const restoredMs = performance.now() - beganMs
      try {
        const control = createControlChannel(await machine.connect(CONTROL_PORT))
        const stream = await machine.connect(AGENT_PORT)
        const owner = newWorkerId('be9cbe9cbe9c')
        const slot = {
          slotId: lease.id,
          owner,
          language: 'python',
          preload: [],
          limits,
          cell: false,
        } as const
        await control.thaw(thawWords(slot), signal)
        const session = createGuestSession({ readable: stream, writable: stream })
        await session.ready(signal)
        let said = ''
        const io = {
          onOutput: (_stream: unknown, chunk: Uint8Array) => void (said += Buffer.from(chunk).toString()),
          maxOutputBytes: { stdout: 65_536, stderr: 65_536 },
          signal,
        }
        await session.run(program, io, {})
        if (said !== expected) throw new Error(`expected ${JSON.stringify(expected)}, got ${said}`)
        return { restoredMs, gone: machine.kill() }
      } catch (error) {
        await machine.kill()
        throw error
      }
    },
    [Symbol.asyncDispose]: remove,
  }
}
