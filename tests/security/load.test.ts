/** Well-behaved executions beside programs that use every resource, and thirty hostile ones in a row. */
import { readdirSync } from 'node:fs'
import { inLongTier } from '@cofferdam/embedded/needs'
import { expect, test } from 'vitest'
import { processesNamed, slotsOf } from './host.ts'
import { eventually, onTargets, program } from './on-targets.ts'
import { CELLS_MAX, IDLE_MAX, isWarm, python, type Attack, type Target } from './target.ts'

const pressing = (what: string): ReturnType<typeof program> =>
  ({ ...program('press'), argv: [what] }) as ReturnType<typeof program>
const limits = {
  memory_mib: 96,
  pids: 48,
  disk_mib: 48,
  cpus: 0.5,
  hard_timeout_ms: 170_000,
  soft_timeout_ms: 169_000,
}
/**
 * Hard timeout of one small execution. On a quiet machine with two CPUs, twenty in a row take seconds, beside
 * four programs that each use half a CPU.
 */
const ONE_MS = 20_000

const descriptorsOf = (target: Target): number => readdirSync(`/proc/${target.pid}/fd`).length

/** One kind of sandbox for all, so that waiting sandboxes are used. */
const small = { memory_mib: 96, pids: 40, disk_mib: 48 }
const named = (name: string, ...argv: string[]): ReturnType<typeof program> =>
  ({ ...program(name), argv }) as ReturnType<typeof program>

/**
 * Each is hostile in another way, and ends by itself or is ended. Some leave processes that the host can find
 * by `name`.
 */
const HOSTILE = (
  name: string,
): { program: ReturnType<typeof program>; limits?: object; stop?: boolean }[] => [
  { program: named('daemon', name, 'leave') },
  { program: named('harm_agent') },
  { program: named('forge') },
  { program: named('leave_behind', name, 'processes') },
  { program: named('fork_bomb'), limits: { soft_timeout_ms: 400, hard_timeout_ms: 600 } },
  { program: python('held = []\nwhile True: held.append(bytearray(b"x") * (4 << 20))') },
  {
    program: python(
      'import os\nos.write(1, b"up\\n")\ntry: os.kill(-1, 9)\nfinally: os.kill(os.getpid(), 9)',
    ),
  },
  { program: pressing('cpu'), stop: true },
  { program: named('daemon', name, 'stay'), stop: true },
  {
    program: python('import os, signal\nos.write(1, b"x" * 30000000)\nos.kill(0, signal.SIGSTOP)'),
    limits: { soft_timeout_ms: 500, hard_timeout_ms: 700 },
  },
]

await onTargets(
  (target) => {
    test('twenty small executions end well beside programs that exhaust every resource', async () => {
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
      // All four programs still run and are cancelled only now, so the twenty had pressure all the time.
      for (const press of presses) press.stop('cancelled')
      const ends = await Promise.all(presses.map((press) => press.gone))
      expect(ends.map(({ outcome }) => outcome.ending)).toEqual([
        'cancelled',
        'cancelled',
        'cancelled',
        'cancelled',
      ])
    }, 180_000)

    inLongTier(
      'thirty hostile programs in a row leave only the idle pool and no more descriptors',
      async () => {
        const name = `churn${process.pid}x${target.pid}`
        const list = HOSTILE(name)
        let warm = 0
        const once = async ({
          program: source,
          limits: more,
          stop,
        }: (typeof list)[number]): Promise<void> => {
          const attack = target.start({ program: source, limits: { ...small, ...more } })
          if (stop === true) {
            await attack.began
            attack.stop('cancelled')
          }
          warm += (await attack.gone).outcome.warm ? 1 : 0
        }
        const start = descriptorsOf(target)
        for (let round = 0; round < 3; round++) for (const one of list) await once(one)
        // Check that the pool's sandboxes were attacked.
        expect(warm).toBeGreaterThanOrEqual(15)
        expect(target.spent.size).toBeGreaterThanOrEqual(30)
        expect(processesNamed(name)).toEqual([])
        const slots = slotsOf(target)
        expect(slots.filter((slot) => target.spent.has(slot))).toEqual([])
        expect(slots.length).toBeLessThanOrEqual(IDLE_MAX + CELLS_MAX)
        console.log(
          `${target.name}: ${slots.length} wait after 30 executions, ${warm} of them warm; descriptors ${start} to ${descriptorsOf(target)}`,
        )
        // Up to four descriptors for each waiting sandbox (channel, stderr, record). `start` counts those
        // that always stay open.
        await eventually(() => expect(descriptorsOf(target)).toBeLessThanOrEqual(start + 4 * IDLE_MAX + 4))
      },
      240_000,
    )
  },
  { where: isWarm, daily: ({ name }) => name === 'docker warm' },
)
