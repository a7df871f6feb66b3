import { createJudgedDial } from '@cofferdam/egress'
import { expect, it } from 'vitest'
import { serveCallbacks, serveTicks } from '../src/index.ts'
import { openStage, until } from './stage.ts'

it('a worker that stops does not wait for a Redis that is down', async () => {
  await using stage = await openStage()
  const onError = (): void => undefined
  const routine = await stage.routine({ schedule: { every_ms: 1000 } })
  const ticks = serveTicks({
    redis: stage.connect('worker'),
    routines: stage.store.routines,
    producer: stage.producer,
    onError,
    reconcileMs: 50,
  })
  const callbacks = serveCallbacks({
    redis: stage.connect('worker'),
    producer: stage.producer,
    store: stage.store,
    dial: createJudgedDial({ privateAllow: [] }),
    onError,
    timing: { collectMs: 50 },
  })
  await until('a tick', async () => (await stage.store.routines.runs(null, routine.routine_id, 1)).length > 0)
  await stage.stopRedis()
  const startedMs = Date.now()
  await Promise.all([ticks[Symbol.asyncDispose](), callbacks[Symbol.asyncDispose]()])
  // Redis stays down, so the worker takes three steps of at most two seconds. The rest is for a slow machine.
  expect(Date.now() - startedMs).toBeLessThan(30_000)
})
