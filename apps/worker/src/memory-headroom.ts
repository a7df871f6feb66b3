/**
 * The worker's memory as the queue sees it. An execution counts from its claim, not only from the moment when
 * it asks the budget after policy and admission. Otherwise a burst would fill every slot with executions that
 * wait here, first come first served, instead of in the fair queue.
 */
import type { Executor } from '@cofferdam/executor'
import type { Room, Taken } from '@cofferdam/queue'

export interface MemoryHeadroom extends Room {
  /**
   * When this executor starts an attempt, the reservation of `reserve` ends, because the budget counts the
   * attempt from then on.
   */
  readonly executor: Executor
  /** Reserves memory and runs `work`. The reservation ends with the start of the attempt or with `work`. */
  reserve(taken: Taken, work: () => Promise<void>): Promise<void>
}

/**
 * There is headroom while nobody waits for memory and all claimed executions fit. So one execution that does
 * not fit may be claimed, and then no more. With both lanes, routines are claimed while they hold less than
 * `routineShare` of the memory, because programs that run for hours must not take it from interactive work.
 */
export function createMemoryHeadroom(executor: Executor, routineShare = 1): MemoryHeadroom {
  const { memory } = executor
  const reserved = new Map<string, number>()
  const listeners: (() => void)[] = []
  let reservedBytes = 0
  let routineBytes = 0
  const changed = (): void => {
    for (const listener of listeners) listener()
  }
  memory.onPressure(changed)
  memory.onRoom(changed)

  const release = (executionId: string): void => {
    const bytes = reserved.get(executionId)
    if (bytes === undefined) return
    reserved.delete(executionId)
    reservedBytes -= bytes
    changed()
  }

  return {
    isFree: (lane) =>
      memory.waiting === 0 &&
      (lane !== 'routine' || routineBytes < memory.totalBytes * routineShare) &&
      (reservedBytes === 0 || memory.usedBytes + reservedBytes <= memory.totalBytes),
    isAmple: (lane) =>
      memory.usedBytes + reservedBytes <= memory.totalBytes / 2 &&
      (lane !== 'routine' || routineBytes <= (memory.totalBytes * routineShare) / 2),
    onChange: (listener) => void listeners.push(listener),
    executor: Object.create(executor, {
      start: {
        value: ((attempt) => {
          const running = executor.start(attempt)
          // By now the budget has granted the memory, or counts the attempt as waiting.
          release(attempt.executionId)
          return running
        }) satisfies Executor['start'],
      },
    }) as Executor,
    async reserve({ executionId, request, lane }, work) {
      const bytes = executor.hostMemory(request)
      if (lane === 'routine') routineBytes += bytes
      // This worker may claim an execution again before it notices that it lost the first claim.
      reserved.set(executionId, (reserved.get(executionId) ?? 0) + bytes)
      reservedBytes += bytes
      try {
        await work()
      } finally {
        if (lane === 'routine') {
          routineBytes -= bytes
          changed()
        }
        release(executionId)
      }
    },
  }
}
