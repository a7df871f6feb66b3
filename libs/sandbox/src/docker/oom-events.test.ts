import { PassThrough } from 'node:stream'
import { expect, it, vi } from 'vitest'
import { SILENT } from '../deps.ts'
import type { Daemon } from './daemon.ts'
import { countOomKills, createOomEvents } from './oom-events.ts'

async function listening(killsOfHost: (() => number) | null) {
  const stream = new PassThrough()
  const daemon = { call: async () => stream } as unknown as Daemon
  const events = createOomEvents(daemon, SILENT, killsOfHost)
  await events.listen()
  const say = (Action: string, attributes: object = {}): boolean =>
    stream.write(`${JSON.stringify({ Action, Actor: { Attributes: { name: 'one', ...attributes } } })}\n`)
  return { events, say, [Symbol.dispose]: () => events.close() }
}

it('reports an OOM after the event', async () => {
  using daemon = await listening(null)
  daemon.events.begin('one')
  daemon.say('oom')
  daemon.say('die', { exitCode: '137' })
  expect(await daemon.events.happened('one')).toBe(true)
})

it('reports an OOM by the kernel’s count if the event was lost', async () => {
  let kills = 7
  using daemon = await listening(() => kills)
  daemon.events.begin('one')
  kills = 8
  daemon.say('die', { exitCode: '137' })
  expect(await daemon.events.happened('one')).toBe(true)
})

it('reports no OOM for a sandbox that died before its program, whatever the host counts', async () => {
  let kills = 7
  using daemon = await listening(() => kills)
  daemon.say('die', { exitCode: '137' })
  await new Promise(setImmediate)
  daemon.events.begin('one')
  kills = 8
  expect(await daemon.events.happened('one')).toBe(false)
})

it.each<[string, string, (() => number) | null]>([
  ['killed from outside', '137', () => 7],
  ['that ended by itself', '0', vi.fn(() => 8).mockReturnValueOnce(7)],
  ['killed where the event is never lost', '137', null],
])('reports no OOM for a sandbox %s', async (_what, exitCode, killsOfHost) => {
  using daemon = await listening(killsOfHost)
  daemon.events.begin('one')
  daemon.say('die', { exitCode })
  expect(await daemon.events.happened('one')).toBe(false)
})

it('reads this host’s count if its kernel has one', () => {
  expect(Number.isInteger(countOomKills())).toBe(process.platform === 'linux')
})
