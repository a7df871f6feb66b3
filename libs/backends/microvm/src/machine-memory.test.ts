import { expect, it } from 'vitest'
import { createMachineMemory, proportionalShare } from './machine-memory.ts'

it('counts a machine as the largest of the last eight', async () => {
  const memory = createMachineMemory()
  const guess = memory.bytes
  expect(guess).toBeGreaterThan(0)
  // No process has this pid, as if the machine had ended meanwhile.
  await memory.look(2 ** 30)
  expect(memory.bytes).toBe(guess)
  for (let look = 0; look < 10; look++) await memory.look(process.pid)
  const own = (await proportionalShare(process.pid)) ?? 0
  expect(own).toBeGreaterThan(0)
  expect(Math.abs(memory.bytes / own - 1)).toBeLessThan(0.5)
})
