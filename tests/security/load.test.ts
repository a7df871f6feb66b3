/** Well-behaved executions beside programs that press every resource they are allowed, and thirty hostile programs in a row. */
import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { processesNamed, slotsOf } from './host.ts'
import { eventually, onTargets, program } from './on-targets.ts'
import { bash, CELLS_MAX, IDLE_MAX, isWarm, python, type Attack, type Target } from './target.ts'

const pressing = (what: string): ReturnType<typeof program> =>
  ({ ...program('press'), argv: [what] }) as ReturnType<typeof program>
const limits = {
  memory_mib: 96,
  pids: 48,
  disk_mib: 48,
  cpus: 0.5,
  hard_timeout_ms: 80_000,
  soft_timeout_ms: 79_000,
}
/** Twenty in a row beside four that each take half a CPU of two: seconds on a quiet machine. */
const ONE_MS = 20_000

const descriptorsOf = (target: Target): number => readdirSync(`/proc/${target.pid}/fd`).length

/** Each is hostile in another way, and ends by itself or is ended. Names are found on the host. */
const HOSTILE = (name: string): { program: ReturnType<typeof program>; more?: object; stop?: boolean }[] => [
  { program: { ...program('daemon'), argv: [name, 'leave'] } as ReturnType<typeof program> },
  { program: program('harm_agent') },
  { program: program('forge') },
  { program: { ...program('leave_behind'), argv: [name, 'processes'] } as ReturnType<typeof program> },
  {
    program: program('fork_bomb'),
    more: { limits: { pids: 32, soft_timeout_ms: 400, hard_timeout_ms: 600 } },
  },
  {
    program: python('held = []\nwhile True: held.append(bytearray(b"x") * (4 << 20))'),
    more: { limits: { memory_mib: 64 } },
  },
  { program: bash('echo up; kill -KILL -1; kill -KILL $$') },
  { program: pressing('cpu'), stop: true },
  { program: { ...program('daemon'), argv: [name, 'stay'] } as ReturnType<typeof program>, stop: true },
  {
    program: bash('head -c 30000000 /dev/zero; kill -STOP $$'),
    more: { limits: { soft_timeout_ms: 500, hard_timeout_ms: 700 } },
  },
]

await onTargets(
  (target) => {
    test('twenty small executions end well beside a fork bomb, a memory hog, a disk filler and spinners', async () => {
      const presses: Attack[] = []
      for (const what of ['forks', 'memory', 'files', 'cpu'])
        presses.push(target.start({ program: pressing(what), limits }))
      await Promise.all(presses.map((press) => press.said('up')))
      let slowest = 0
      for (let turn = 0; turn < 20; turn++) {
        const { outcome, stdout, ms } = await target.run({
          program: python(`print(sum(range(${turn} * 1000)))`),
          limits: { soft_timeout_ms: ONE_MS - 1000, hard_timeout_ms: ONE_MS },
        })
        expect(outcome, outcome.failureReason ?? '').toMatchObject({ ending: 'ok', exitCode: 0 })
        const n = turn * 1000
        expect(stdout).toBe(`${(n * (n - 1)) / 2}\n`.replace('-0', '0'))
        slowest = Math.max(slowest, ms)
      }
      console.log(`${target.name}: the slowest of 20 beside four stressors took ${Math.round(slowest)} ms`)
      // Under pressure to the end: none of them had died of it, so the twenty had company all the time.
      for (const press of presses) press.stop('cancelled')
      const ends = await Promise.all(presses.map((press) => press.gone))
      expect(ends.map(({ outcome }) => outcome.ending)).toEqual([
        'cancelled',
        'cancelled',
        'cancelled',
        'cancelled',
      ])
    }, 180_000)

    test('thirty hostile programs in a row leave nothing but the idle pool, and descriptors stay flat', async () => {
      const name = `churn${process.pid}x${target.pid}`
      const list = HOSTILE(name)
      const once = async ({ program: source, more = {}, stop }: (typeof list)[number]): Promise<void> => {
        const attack = target.start({ program: source, ...more })
        if (stop === true) {
          await attack.began
          attack.stop('cancelled')
        }
        await attack.gone
      }
      const start = descriptorsOf(target)
      for (const one of list) await once(one)
      let warm = 0
      for (let round = 0; round < 2; round++) {
        for (const one of list) await once(one)
        warm += (await target.run({ program: python('print(1)') })).outcome.warm ? 1 : 0
      }
      expect(target.spent.size).toBeGreaterThanOrEqual(32)
      expect(processesNamed(name)).toEqual([])
      const slots = slotsOf(target)
      expect(slots.filter((slot) => target.spent.has(slot))).toEqual([])
      expect(slots.length).toBeLessThanOrEqual(IDLE_MAX + CELLS_MAX)
      console.log(
        `${target.name}: ${slots.length} wait after 32 executions; ${warm} of 2 well-behaved ones were warm; descriptors ${start} to ${descriptorsOf(target)}`,
      )
      // Four a slot that waits (channel, stderr, record); the first ten brought lasting ones.
      await eventually(() => expect(descriptorsOf(target)).toBeLessThanOrEqual(start + 4 * IDLE_MAX + 4))
    }, 240_000)
  },
  { where: isWarm },
)
