import { describe, expect, it } from 'vitest'
import { createGuessBrake } from './guess-brake.ts'

describe('the brake on guessed keys', () => {
  it('lets twenty guesses of an address through, then one a second', () => {
    let nowMs = 0
    const brake = createGuessBrake(() => nowMs)
    const waits = Array.from({ length: 21 }, () => brake.take('192.0.2.1'))
    expect(waits).toEqual([...Array.from({ length: 20 }, () => 0), 1000])
    expect(brake.take('192.0.2.2')).toBe(0)
    nowMs = 1000
    expect([brake.take('192.0.2.1'), brake.take('192.0.2.1')]).toEqual([0, 1000])
    nowMs = 60_000
    expect(Array.from({ length: 20 }, () => brake.take('192.0.2.1'))).not.toContain(1000)
  })

  it('counts no guess that was given back', () => {
    const brake = createGuessBrake(() => 0)
    for (let n = 0; n < 100; n += 1) {
      expect(brake.take('192.0.2.1')).toBe(0)
      brake.giveBack('192.0.2.1')
    }
  })
})
