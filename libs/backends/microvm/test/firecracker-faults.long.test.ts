/**
 * The Firecracker engine against failures of the double at every call, and in random orders of its own calls.
 */
import { text } from 'node:stream/consumers'
import { needs } from '@cofferdam/embedded/needs'
import { expect } from 'vitest'
import type { MachineTemplate } from '../src/engine.ts'
import { firecrackerHost, hello, thaw, type FirecrackerHost } from './firecracker-host.ts'

const never = new AbortController().signal
const root = needs('root', 'mounts', 'setpriv', 'cgroups')
const FAILED = { code: 'sandbox_open_failed' }
const RESTORE = ['GET /version', 'PUT /logger', 'PUT /snapshot/load']
const FAULTS = ['400', '500', 'die', 'hang', 'close', 'junk'] as const

const templateOf = (host: FirecrackerHost): Promise<MachineTemplate> =>
  host.engine.createTemplate(host.spec, host.templateFolder(), hello, never)

root.it(
  'fails a restore at each call and in each way, and leaves nothing',
  async () => {
    await using host = await firecrackerHost()
    const template = await templateOf(host)
    await using impatient = await firecrackerHost({}, { jailerMs: 60_000, apiMs: 60_000, answerMs: 3000 })
    // Both hosts use the same files on one file system, so `impatient` can restore the other host's template.
    for (const call of RESTORE)
      for (const fault of FAULTS) {
        impatient.double.setFaults({ api: { [call]: fault } })
        const restoring = impatient.engine.restore(template, impatient.lease(), never)
        await expect(restoring, `${call} ${fault}`).rejects.toMatchObject(FAILED)
        expect(impatient.left(), `${call} ${fault}`).toEqual([])
      }
  },
  600_000,
)

root.it(
  'fails a template at each call, and leaves nothing',
  async () => {
    await using host = await firecrackerHost({}, { jailerMs: 60_000, apiMs: 60_000, snapshotMs: 3000 })
    const faults: Record<string, (typeof FAULTS)[number]> = {
      'PUT /machine-config': '400',
      'PUT /boot-source': '500',
      'PUT /drives/rootfs': 'close',
      'PUT /vsock': 'junk',
      'PUT /entropy': 'die',
      'PUT /actions': 'die',
      'PATCH /vm': '400',
      'PUT /snapshot/create': 'hang',
    }
    for (const [call, fault] of Object.entries(faults)) {
      host.double.setFaults({ api: { [call]: fault } })
      await expect(templateOf(host), call).rejects.toMatchObject(FAILED)
      expect(host.left(), call).toEqual([])
    }
  },
  300_000,
)

/** xorshift32: the same orders in every run. */
function random(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % below
  }
}

root.it(
  'leaves nothing after random orders of its calls',
  async () => {
    await using host = await firecrackerHost()
    const template = await templateOf(host)
    const next = random(20_261_127)
    interface Live {
      id: string
      pid: number
      machine: Awaited<ReturnType<typeof host.engine.restore>>
    }
    const live: Live[] = []
    const taken = (): Live | undefined => live.splice(next(Math.max(1, live.length)), 1)[0]
    for (let step = 0; step < 24; step++) {
      const what = ['restore', 'restore', 'abort', 'kill', 'vmm dies', 'killLeft', 'thaw', 'fault'][next(8)]
      if (what === 'restore') {
        const lease = host.lease()
        let pid = 0
        const started = async (vmm: number): Promise<void> => void (pid = vmm)
        live.push({
          id: lease.id,
          machine: await host.engine.restore(template, { ...lease, started }, never),
          pid,
        })
      }
      if (what === 'abort') {
        const stop = new AbortController()
        const reason = new Error('enough')
        const lease = { ...host.lease(), started: async () => stop.abort(reason) }
        await expect(host.engine.restore(template, lease, stop.signal)).rejects.toBe(reason)
      }
      if (what === 'fault') {
        host.double.setFaults({ api: { [RESTORE[next(3)] ?? '']: FAULTS[next(3)] ?? '400' } })
        await expect(host.engine.restore(template, host.lease(), never)).rejects.toMatchObject(FAILED)
        host.double.setFaults({})
      }
      if (what === 'thaw' && live.length > 0) {
        const control = await thaw(
          live[next(live.length)]?.machine.connect ?? (() => Promise.reject(new Error())),
        )
        control.destroy()
        await text(control).catch(() => '')
      }
      if (what === 'kill') await taken()?.machine.kill()
      if (what === 'vmm dies') {
        const one = taken()
        if (one !== undefined) process.kill(one.pid, 'SIGKILL')
        await one?.machine.exited
        await one?.machine.kill()
      }
      if (what === 'killLeft') {
        const one = taken()
        if (one !== undefined) expect(await host.engine.killLeft({ id: one.id, process: null })).toBe(true)
        await one?.machine.kill()
      }
      // As many jails as machines, at every moment.
      expect(
        host.left().filter((line) => line.startsWith('jail ')),
        `step ${step}: ${what}`,
      ).toHaveLength(live.length)
    }
    await Promise.all(live.map(({ machine }) => machine.kill()))
    expect(host.left()).toEqual([])
  },
  300_000,
)
