/**
 * A guest that is a virtual machine of another engine of libs/backends/microvm, such as QEMU: what the API of
 * the double is told, the engine does. The engine boots and saves in one call, so it saves when the API says
 * so.
 */
import { mkdtemp, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type {
  Connect,
  Machine,
  MachineSpec,
  MicrovmEngine,
} from '../../../libs/backends/microvm/src/engine.ts'
import type { Guest, GuestStream } from './guest.ts'

export function createMachineGuest(
  engine: MicrovmEngine,
  files: Pick<MachineSpec, 'kernel' | 'initramfs' | 'root'>,
  folder: string,
): Guest {
  const never = new AbortController().signal
  const mayBeSaved = Promise.withResolvers<void>()
  let saved: ReturnType<MicrovmEngine['createTemplate']> | null = null
  let machine: Machine | null = null
  let connectPort: Connect | null = null
  let isPaused = false

  return {
    async boot({ memoryMib, vcpus }) {
      const runs = Promise.withResolvers<void>()
      const making = engine.createTemplate(
        { ...files, memoryMib, vcpus },
        await mkdtemp(join(folder, 'saved-')),
        async (connect) => {
          connectPort = connect
          runs.resolve()
          await mayBeSaved.promise
        },
        never,
      )
      making.catch(runs.reject)
      saved = making
      await runs.promise
    },
    pause() {
      isPaused = true
    },
    resume() {
      isPaused = false
    },
    async connect(port): Promise<GuestStream | null> {
      if (isPaused || connectPort === null) return null
      try {
        const stream = await connectPort(port)
        // A serial port that was closed is saved as closed, where a vsock has only lost a connection.
        const staysOpen = machine === null
        return {
          readable: stream,
          writable: stream,
          staysOpen,
          close: () => void (staysOpen || stream.destroy()),
        }
      } catch {
        return null
      }
    },
    async save(state, memory) {
      mayBeSaved.resolve()
      if (saved === null) throw new Error('it was not booted')
      const template = await saved
      await rename(template.state, state)
      await rename(template.memory, memory)
    },
    async load(state, memory, { memoryMib, vcpus }) {
      const lease = {
        folder,
        id: `double-${process.pid}-${performance.timeOrigin}`,
        started: () => Promise.resolve(),
      }
      machine = await engine.restore({ spec: { ...files, memoryMib, vcpus }, state, memory }, lease, never)
      connectPort = machine.connect
      void machine.exited.then(() => process.exit(0))
    },
    end: () => void machine?.kill(),
  }
}
