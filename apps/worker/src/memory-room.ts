/**
 * The worker's memory as the queue asks for it. An execution counts from the moment it is taken, not only from when it
 * asks the budget (policy and admission come before): otherwise a burst would fill every slot with executions that wait
 * here, first come first served, instead of in the fair queue.
 */
import type { Executor } from '@cofferdam/executor'
import type { Room, Taken } from '@cofferdam/queue'

export interface MemoryRoom extends Room {
  /** The executor whose starts ask the budget in place of the count that `carry` holds. */
  readonly executor: Executor
  /** Runs `work` and counts the execution's memory until it is started, or `work` is over. */
  carry(taken: Taken, work: () => Promise<void>): Promise<void>
}

/**
 * There is room while nobody waits for memory and all that was taken fits: the first that does not fit is the last one taken.
 * Where both lanes are served, routines are taken while they hold less than `routineShare` of the memory, so that what runs
 * for hours does not hold what interactive work needs.
 */
export function createMemoryRoom(executor: Executor, routineShare = 1): MemoryRoom {
  const { memory } = executor
  const expected = new Map<string, number>()
  const listeners: (() => void)[] = []
  let expectedBytes = 0
  let routineBytes = 0
  const changed = (): void => {
    for (const listener of listeners) listener()
  }
  memory.onPressure(changed)
  memory.onRoom(changed)

  const settle = (executionId: string): void => {
    const bytes = expected.get(executionId)
    if (bytes === undefined) return
    expected.delete(executionId)
    expectedBytes -= bytes
    changed()
  }

  return {
    isFree: (lane) =>
      memory.waiting === 0 &&
      (lane !== 'routine' || routineBytes < memory.totalBytes * routineShare) &&
      (expectedBytes === 0 || memory.usedBytes + expectedBytes <= memory.totalBytes),
    isAmple: (lane) =>
      memory.usedBytes + expectedBytes <= memory.totalBytes / 2 &&
      (lane !== 'routine' || routineBytes <= (memory.totalBytes * routineShare) / 2),
    onChange: (listener) => void listeners.push(listener),
    executor: Object.create(executor, {
      start: {
        value: ((attempt) => {
          const running = executor.start(attempt)
          // The budget has answered by now: granted, or waiting.
          settle(attempt.executionId)
          return running
        }) satisfies Executor['start'],
      },
    }) as Executor,
    async carry({ executionId, request, lane }, work) {
      const bytes = executor.hostMemory(request)
      if (lane === 'routine') routineBytes += bytes
      expected.set(executionId, bytes)
      expectedBytes += bytes
      try {
        await work()
      } finally {
        if (lane === 'routine') {
          routineBytes -= bytes
          changed()
        }
        settle(executionId)
      }
    },
  }
}
