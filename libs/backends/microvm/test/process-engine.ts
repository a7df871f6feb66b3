/** An engine without machines, for the double’s way to have machines of another engine. */
import { join } from 'node:path'
import { Duplex } from 'node:stream'
import { createProcessGuest } from '../../../../infra/doubles/firecracker/process-guest.ts'
import type { Connect, MachineExit, MicrovmEngine } from '../src/engine.ts'

export async function createProcessEngine(options: { agent: string[] }): Promise<MicrovmEngine> {
  const guest = createProcessGuest({ ...options, bootMs: 0 })
  const connect: Connect = async (port) => {
    const stream = await guest.connect(port)
    if (stream === null) throw new RangeError(`nobody listens on ${port}`)
    const { readable, writable } = stream
    return Duplex.from(async function* (host: AsyncIterable<Buffer>) {
      void (async () => {
        for await (const chunk of host) writable.write(chunk)
        writable.end()
      })().catch(() => {})
      yield* readable
    }) as Duplex
  }
  return {
    name: 'qemu',
    hardware: false,
    probe: async () => ({ ok: true, features: [] }),
    templateKey: async () => 'process',
    async createTemplate(spec, folder, prepare) {
      await guest.boot(spec)
      await prepare(connect)
      const template = { spec, state: join(folder, 'state'), memory: join(folder, 'memory') }
      await guest.save(template.state, template.memory, spec)
      return template
    },
    async restore(template, lease) {
      await guest.load(template.state, template.memory, template.spec)
      guest.resume()
      const exited = new Promise<MachineExit>(() => {})
      const kill = async (): Promise<void> => guest.end()
      return { ref: lease.id, connect, kill, exited, [Symbol.asyncDispose]: kill }
    },
    killLeft: async () => false,
  }
}
