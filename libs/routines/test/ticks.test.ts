import type { Routines } from '@cofferdam/store'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createSchedules, serveTicks } from '../src/index.ts'
import { openStage, runsOf, until, type Stage } from './stage.ts'

let stage: Stage
let errors: unknown[]
beforeEach(async () => {
  stage = await openStage()
  errors = []
})
afterEach(async () => {
  await stage[Symbol.asyncDispose]()
  expect(errors).toEqual([])
})

const serve = (reconcileMs?: number) =>
  serveTicks({
    redis: stage.connect('worker'),
    routines: stage.store.routines,
    producer: stage.producer,
    onError: (error) => void errors.push(error),
    ...(reconcileMs === undefined ? {} : { reconcileMs }),
  })

describe('a schedule', () => {
  it('fires at its times, once each with two workers, and not after it was disabled', async () => {
    stage.work()
    const routine = await stage.routine({ schedule: { every_ms: 1000 }, concurrency: 'allow' })
    const id = routine.routine_id
    await using _one = serve(100)
    await using _two = serve(100)
    const runs = await until('three runs', async () => {
      const seen = await runsOf(stage, id)
      return seen.length >= 3 && seen
    })
    const made = Date.parse(routine.created_at)
    for (const { scheduled_at, fired_at } of runs) {
      const offset = Date.parse(scheduled_at!) - made
      expect(offset % 1000).toBe(0)
      expect(Date.parse(fired_at)).toBeGreaterThanOrEqual(Date.parse(scheduled_at!))
    }
    expect(new Set(runs.map((run) => run.scheduled_at)).size).toBe(runs.length)
    await stage.store.routines.change('acme', id, { enabled: false }, 'test')
    const keys = async () => (await stage.redis.zcard('{cofferdam}:routine-ticks:repeat')) === 0
    await until('the scheduler to go', keys)
  })

  it('is restored with the same phase after Redis lost all data', async () => {
    const routine = await stage.routine({ schedule: { every_ms: 1000 } })
    await using _ticks = serve(100)
    await until('a first run', async () => (await runsOf(stage, routine.routine_id)).length > 0)
    // Lose the data between two ticks, because a tick in progress would report that its job is gone.
    const lose = `if redis.call('LLEN', KEYS[1]) > 0 then return 0 end; redis.call('FLUSHALL'); return 1`
    await until(
      'no tick',
      async () => (await stage.redis.eval(lose, 1, '{cofferdam}:routine-ticks:active')) === 1,
    )
    const before = (await runsOf(stage, routine.routine_id)).length
    stage.work()
    const after = await until('another run', async () => {
      const seen = await runsOf(stage, routine.routine_id)
      return seen.length > before + 1 && seen
    })
    const made = Date.parse(routine.created_at)
    for (const run of after) expect((Date.parse(run.scheduled_at!) - made) % 1000).toBe(0)
  })

  it('fires once, for the first missed time, after all workers were down', async () => {
    stage.work()
    const routine = await stage.routine({ schedule: { every_ms: 1000 }, concurrency: 'allow' })
    const schedules = createSchedules(stage.connect('producer'), (error) => void errors.push(error))
    await schedules.apply(routine)
    await schedules[Symbol.asyncDispose]()
    // The first tick is due a second after the routine's creation, or some whole seconds later on a slow
    // machine.
    const [, first] = await stage.redis.zrange('{cofferdam}:routine-ticks:repeat', '0', '-1', 'WITHSCORES')
    expect((Number(first) - Date.parse(routine.created_at)) % 1000).toBe(0)
    await until('four moments to pass', async () => Date.now() > Number(first) + 3500)
    await using _ticks = serve(60_000)
    const runs = await until('two runs', async () => {
      const seen = await runsOf(stage, routine.routine_id)
      return seen.length >= 2 && seen
    })
    expect(Date.parse(runs[0]!.scheduled_at!)).toBe(Number(first))
    expect(Date.parse(runs[1]!.scheduled_at!)).toBeGreaterThan(Number(first) + 3000)
  })

  it('is reconciled by one round at a time, and rounds that are due meanwhile are skipped', async () => {
    const answer = Promise.withResolvers<void>()
    let looks = 0
    const routines: Routines = {
      ...stage.store.routines,
      scheduled: async () => {
        looks += 1
        await answer.promise
        return []
      },
    }
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    try {
      const ticks = serveTicks({
        redis: stage.connect('worker'),
        routines,
        producer: stage.producer,
        onError: (error) => void errors.push(error),
        reconcileMs: 10,
      })
      await until('the first look', async () => looks > 0)
      vi.advanceTimersByTime(500)
      const closed = ticks[Symbol.asyncDispose]()
      answer.resolve()
      await closed
    } finally {
      vi.useRealTimers()
    }
    expect(looks).toBe(1)
  })

  it('changes with its routine, and other schedules stay unchanged', async () => {
    const routine = await stage.routine({ schedule: { cron: '0 9 * * *', time_zone: 'Europe/Berlin' } })
    await stage.routine({ schedule: { every_ms: 3_600_000 } })
    await stage.routine()
    await using schedules = createSchedules(stage.connect('producer'), (error) => void errors.push(error))
    expect(await schedules.reconcile(stage.store.routines)).toBe(2)
    expect(await schedules.reconcile(stage.store.routines)).toBe(0)
    await stage.store.routines.change(
      'acme',
      routine.routine_id,
      { schedule: { cron: '0 10 * * *', time_zone: 'Europe/Berlin' } },
      'test',
    )
    expect(await schedules.reconcile(stage.store.routines)).toBe(1)
    await stage.store.routines.remove('acme', routine.routine_id, 'test')
    expect(await schedules.reconcile(stage.store.routines)).toBe(1)
    expect(await schedules.reconcile(stage.store.routines)).toBe(0)
  })
})
