/**
 * A guest that is a virtual machine of QEMU. The QEMU engine of libs/backends/microvm carries out the API's
 * calls. Its `createTemplate` boots and saves in one call, so this guest holds it after the boot until the
 * API says to save. QEMU has no vsock here, so a bridge in the machine stands in for the device
 * (serial-vsock.ts).
 */
import { mkdtemp, rename } from 'node:fs/promises'
import { join } from 'node:path'
import {
  AGENT_PORT,
  CONTROL_PORT,
  type Connect,
  type Machine,
  type MachineSpec,
  type MicrovmEngine,
} from '../../../libs/backends/microvm/src/engine.ts'
import { BRIDGE_ARGUMENT } from './bridge-initramfs.ts'
import type { Guest, MachineSize } from './guest.ts'
import { carryVsock, type SerialVsock } from './serial-vsock.ts'

type Ports = ReadonlyMap<number, SerialVsock>

/**
 * `files` belong to an image whose initramfs has the bridge. `ended` is called when the machine ends by
 * itself.
 */
export function createMachineGuest(
  engine: MicrovmEngine,
  files: Pick<MachineSpec, 'kernel' | 'initramfs' | 'root'>,
  folder: string,
  ended: () => void,
): Guest {
  const never = new AbortController().signal
  const mayBeSaved = Promise.withResolvers<void>()
  let saved: ReturnType<MicrovmEngine['createTemplate']> | null = null
  let machine: Machine | null = null
  let ports: Ports = new Map()
  let isPaused = false
  /** Set by `save`. The engine then ends the machine, so its closed ports are no failure. */
  let isSaved = false

  const specOf = ({ memoryMib, vcpus, bootArgs }: MachineSize): MachineSpec => ({
    ...files,
    memoryMib,
    vcpus,
    // Passes on only our own boot arguments. The others are about the hardware of Firecracker.
    kernelArguments: [BRIDGE_ARGUMENT, ...bootArgs.split(' ').filter(isOurs)].join(' '),
  })

  async function carry(connect: Connect, isReady: boolean): Promise<void> {
    const carried = new Map<number, SerialVsock>()
    for (const port of [CONTROL_PORT, AGENT_PORT]) {
      const line = await connect(port)
      line.once('close', () => {
        if (!isSaved) ended()
      })
      carried.set(port, carryVsock(line, { isReady }))
    }
    ports = carried
  }

  return {
    async boot(size) {
      const runs = Promise.withResolvers<void>()
      const making = engine.createTemplate(
        specOf(size),
        await mkdtemp(join(folder, 'saved-')),
        async (connect) => {
          await carry(connect, false)
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
    connect: async (port) => (isPaused ? null : ((await ports.get(port)?.connect()) ?? null)),
    async save(state, memory) {
      await Promise.all([...ports.values()].map((port) => port.settle()))
      isSaved = true
      mayBeSaved.resolve()
      if (saved === null) throw new Error('it was not booted')
      const template = await saved
      await rename(template.state, state)
      await rename(template.memory, memory)
    },
    async load(state, memory, size) {
      const lease = {
        folder,
        id: `double-${process.pid}-${performance.timeOrigin}`,
        started: () => Promise.resolve(),
      }
      machine = await engine.restore({ spec: specOf(size), state, memory }, lease, never)
      await carry(machine.connect, true)
    },
    end: () => void machine?.kill(),
  }
}

const isOurs = (word: string): boolean => word.startsWith('cofferdam.')
