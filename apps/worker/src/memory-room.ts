/** The worker's memory as the queue asks for it: while one execution waits for its share, no other one is taken. */
import type { MemoryBudget } from '@cofferdam/executor'
import type { Room } from '@cofferdam/queue'

export const memoryRoom = (memory: MemoryBudget): Room => ({
  isFree: () => memory.waiting === 0,
  onChange(listener) {
    memory.onPressure(listener)
    memory.onRoom(listener)
  },
})
