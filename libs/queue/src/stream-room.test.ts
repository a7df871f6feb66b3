import { describe, expect, it } from 'vitest'
import { createStreamRoom } from './stream-room.ts'

const MiB = 1024 * 1024

describe('the room of a live stream', () => {
  it('is 2,000 entries while they are small, those that others appended too', () => {
    const room = createStreamRoom()
    for (let n = 0; n < 5000; n += 1) expect(room.keepWith(['x'.repeat(1000)])).toBe(2000)
  })

  it('is the newest ones that 8 MiB hold', () => {
    const room = createStreamRoom()
    const large = 'x'.repeat(MiB)
    for (let n = 0; n < 8; n += 1) expect(room.keepWith([large])).toBe(2000)
    expect(room.keepWith([large])).toBe(8)
    expect(room.keepWith([large, 'x'])).toBe(8)
    expect(room.keepWith(['x'])).toBe(9)
  })

  it('counts bytes, not characters', () => {
    const room = createStreamRoom()
    expect(room.keepWith(['€'.repeat(4 * MiB), '€'])).toBe(1)
  })

  it('grows again when the large ones are gone', () => {
    const room = createStreamRoom()
    for (let n = 0; n < 9; n += 1) room.keepWith(['x'.repeat(MiB)])
    const small = Array.from({ length: 2000 }, () => 'x')
    expect(room.keepWith(small)).toBe(2000)
  })
})
