import { describe, expect, it, vi } from 'vitest'
import { createAssignedQueue } from './assigned.ts'
import { createRoomGate } from './room.ts'
import { createSlots } from './slots.ts'
import type { AssignedAnswer } from './take.ts'

const NONE: AssignedAnswer = { code: 'none' }
const taken = (left: number): AssignedAnswer => ({ code: 'taken', held: null, left })

/** Serves a worker of two slots, and wakes it once. Returns the number of its takes when it is idle again. */
async function takesOf(answers: readonly AssignedAnswer[], whileItRuns: (wake: () => void) => void) {
  const slots = createSlots(2, ['interactive'])
  const left = [...answers]
  const take = vi.fn(async () => left.shift() ?? NONE)
  const wake = (): void => assigned.wake('interactive')
  const carry = vi.fn(async () => whileItRuns(wake))
  const onError = vi.fn()
  const assigned = createAssignedQueue({ slots, room: createRoomGate(), take, carry, onError })
  const stop = new AbortController()
  const serving = assigned.serve('interactive', stop.signal)
  wake()
  await vi.waitFor(() => {
    expect(left).toEqual([])
    expect(slots.busy).toBe(0)
  }, 15_000)
  stop.abort()
  await serving
  expect(onError).not.toHaveBeenCalled()
  expect(carry).toHaveBeenCalledTimes(answers.filter(({ code }) => code === 'taken').length)
  return { takes: take.mock.calls.length, mayWait: assigned.waits('interactive') }
}

describe('assigned executions', () => {
  it('cost one take if one was assigned alone', async () => {
    expect(await takesOf([taken(0)], () => undefined)).toEqual({ takes: 1, mayWait: false })
  })

  it('are all taken after one message, if the first answer says that others stay assigned', async () => {
    expect(await takesOf([taken(1), taken(0)], () => undefined)).toEqual({ takes: 2, mayWait: false })
  })

  it('include one that was assigned while another one ran', async () => {
    let others = 1
    const assignAnother = (wake: () => void): void => {
      if (others-- > 0) wake()
    }
    expect(await takesOf([taken(0), taken(0)], assignAnother)).toEqual({ takes: 2, mayWait: false })
  })
})
