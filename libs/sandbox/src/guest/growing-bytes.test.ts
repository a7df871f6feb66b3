import { expect, it } from 'vitest'
import { createGrowingBytes } from './growing-bytes.ts'

it('returns all pieces in order, each copied when it came', () => {
  const growing = createGrowingBytes()
  const piece = Buffer.from('ab')
  for (let n = 0; n < 5000; n += 1) growing.push(piece)
  piece.fill('x')
  growing.push(Buffer.alloc(20_000, 'c'))
  expect(growing.size).toBe(30_000)
  expect(growing.bytes().toString()).toBe('ab'.repeat(5000) + 'c'.repeat(20_000))
  expect(createGrowingBytes().bytes()).toEqual(Buffer.alloc(0))
})

it('keeps at most twice the bytes that came, however small the pieces are', () => {
  const growing = createGrowingBytes()
  const byte = Buffer.from('a')
  const before = process.memoryUsage()
  for (let n = 0; n < 1 << 20; n += 1) growing.push(byte)
  const after = process.memoryUsage()
  // One object for each piece would be 122 MB of heap (measured).
  expect(after.heapUsed - before.heapUsed).toBeLessThan(32 * 1024 * 1024)
  expect(growing.size).toBe(1 << 20)
})
