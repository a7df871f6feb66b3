import { describe, expect, it } from 'vitest'
import { createSlots } from './slots.ts'

const never = new AbortController().signal

describe('the slots of a worker', () => {
  it('give routine at most half if both lanes are served, and at least one', () => {
    const max = (total: number, lanes: ('interactive' | 'routine')[]) => {
      const slots = createSlots(total, lanes)
      return [slots.max('interactive'), slots.max('routine')]
    }
    expect(max(8, ['interactive', 'routine'])).toEqual([8, 4])
    expect(max(1, ['interactive', 'routine'])).toEqual([1, 1])
    expect(max(8, ['routine'])).toEqual([0, 8])
    expect(max(8, ['interactive'])).toEqual([8, 0])
    // If only 3 of the 8 slots can be filled, routine gets its share of those 3.
    expect(createSlots(8, ['interactive', 'routine']).max('routine', 3)).toBe(1)
  })

  it("give routine the operator's number, and leave interactive at least one", () => {
    const routine = (total: number, most: number, of?: number) =>
      createSlots(total, ['interactive', 'routine'], most).max('routine', of)
    expect(routine(8, 2)).toBe(2)
    expect(routine(8, 1)).toBe(1)
    expect(routine(8, 8)).toBe(7)
    expect(routine(8, 2, 4)).toBe(1)
  })

  it('are acquired up to the total over both lanes, and again after a release', async () => {
    const slots = createSlots(2, ['interactive', 'routine'])
    expect(slots.tryAcquire('interactive')).toBe(true)
    expect(slots.tryAcquire('routine')).toBe(true)
    expect(slots.busy).toBe(2)
    expect(slots.tryAcquire('interactive')).toBe(false)
    const third = slots.free('interactive', never)
    slots.release('routine')
    await third
    expect(slots.tryAcquire('interactive')).toBe(true)
    expect(slots.busy).toBe(2)
  })

  it("end a lane's wait when its signal aborts", async () => {
    const slots = createSlots(1, ['interactive'])
    await slots.free('interactive', never)
    slots.tryAcquire('interactive')
    const stop = new AbortController()
    const waiting = slots.free('interactive', stop.signal)
    stop.abort()
    await waiting
    expect(slots.busy).toBe(1)
  })
})
