import { DEFAULT_LIMITS } from '@cofferdam/contract'
import { createExecutor, createMemoryBudget } from '@cofferdam/executor'
import type { Taken } from '@cofferdam/queue'
import { expect, it } from 'vitest'
import { createMemoryHeadroom } from './memory-headroom.ts'

const MiB = 1_048_576

it('admits routines up to their share of the memory, and interactive executions beyond it', async () => {
  const blobs = {
    create: () => Promise.reject(new Error('nothing is stored here')),
    read: () => Promise.resolve(null),
    delete: () => Promise.resolve(),
  }
  const memory = createMemoryBudget(1000 * MiB)
  const headroom = createMemoryHeadroom(
    createExecutor({ backends: new Map(), order: [], blobs, memory }),
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
