import { DEFAULT_LIMITS } from '@cofferdam/contract'
import { createExecutor, createMemoryBudget } from '@cofferdam/executor'
import type { Taken } from '@cofferdam/queue'
import { expect, it } from 'vitest'
import { createMemoryHeadroom } from './memory-headroom.ts'

const MiB = 1_048_576
const NO_BLOBS = {
  create: () => Promise.reject(new Error('nothing is stored here')),
  read: () => Promise.resolve(null),
  delete: () => Promise.resolve(),
}

it('returns all memory of an execution that this worker took twice', async () => {
  const memory = createMemoryBudget(1000 * MiB)
  const headroom = createMemoryHeadroom(
    createExecutor({ backends: new Map(), order: [], blobs: NO_BLOBS, memory }),
  )
  const taken = {
    executionId: 'exe_1',
    lane: 'interactive',
    request: { limits: { ...DEFAULT_LIMITS, memory_mib: 600 } },
  } as unknown as Taken
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const both = [headroom.reserve(taken, () => first.promise), headroom.reserve(taken, () => second.promise)]
  first.resolve()
  second.resolve()
  await Promise.all(both)
  // If 600 MiB stayed reserved, an execution of that size would not fit.
  const ended = Promise.withResolvers<void>()
  const third = headroom.reserve({ ...taken, executionId: 'exe_2' } as unknown as Taken, () => ended.promise)
  expect(headroom.isFree()).toBe(true)
  ended.resolve()
  await third
})

it('admits routines up to their share of the memory, and interactive executions beyond it', async () => {
  const memory = createMemoryBudget(1000 * MiB)
  const headroom = createMemoryHeadroom(
    createExecutor({ backends: new Map(), order: [], blobs: NO_BLOBS, memory }),
    0.5,
  )
  const ended = Promise.withResolvers<void>()
  const taken = (executionId: string, lane: Taken['lane']) =>
    ({ executionId, lane, request: { limits: { ...DEFAULT_LIMITS, memory_mib: 300 } } }) as Taken

  expect(headroom.isFree('routine')).toBe(true)
  expect([headroom.isAmple('routine'), headroom.isAmple('interactive')]).toEqual([true, true])
  const first = headroom.reserve(taken('exe_1', 'routine'), () => ended.promise)
  expect(headroom.isFree('routine')).toBe(true)
  // 300 of the 500 MiB for routines, and 300 of 1,000 MiB in total.
  expect([headroom.isAmple('routine'), headroom.isAmple('interactive')]).toEqual([false, true])
  const second = headroom.reserve(taken('exe_2', 'routine'), () => ended.promise)
  expect(headroom.isFree('routine')).toBe(false)
  expect(headroom.isFree('interactive')).toBe(true)
  expect(headroom.isFree()).toBe(true)
  expect(headroom.isAmple('interactive')).toBe(false)

  let changes = 0
  headroom.onChange(() => (changes += 1))
  ended.resolve()
  await Promise.all([first, second])
  expect(changes).toBeGreaterThan(0)
  expect(headroom.isFree('routine')).toBe(true)
})
