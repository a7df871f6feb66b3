/** Usage: plausible if declared as measured, otherwise null. */
import type { Usage } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

const FIELDS = ['cpu_ms', 'peak_memory_bytes', 'read_bytes', 'write_bytes', 'wall_ms'] as const

/**
 * Minimum CPU milliseconds of two processes that each run until their own clock says 500, minus rounding.
 * gVisor's inner clock continues while others have the CPU, so processes there take less.
 */
export const leastOfTwice500 = ({ backend }: Harness): number => (backend.isolation === 'gvisor' ? 250 : 900)

export function usage(h: Harness): void {
  const { burn, sleep, fillMemory } = h.programs
  const measured = (field: keyof Usage): boolean => h.capabilities.measures.includes(field)

  test('reports a number in every field declared as measured, and null in the others', async () => {
    const sandbox = await h.open(h.programs.exit(0))
    const { exit } = await h.run(sandbox, h.programs.exit(0))
    for (const taken of [exit.usage, await sandbox.usage()])
      for (const field of FIELDS) {
        if (measured(field)) expect(taken[field], field).toBeGreaterThanOrEqual(0)
        else expect(taken[field], field).toBeNull()
      }
  })

  if (sleep !== undefined)
    test('measures wall time from the program’s start to its end', async () => {
      const { exit } = await h.once(sleep(300))
      expect(exit.usage.wall_ms).toBeGreaterThanOrEqual(295)
      expect(exit.usage.wall_ms).toBeLessThan(10_000)
    })

  if (burn !== undefined && measured('cpu_ms'))
    test('measures the CPU time of the program and its children', async () => {
      const { exit } = await h.once(burn(500), { limits: { cpus: 2 } })
      // The program's start and end add a little to the minimum.
      expect(exit.usage.cpu_ms).toBeGreaterThan(leastOfTwice500(h))
      expect(exit.usage.cpu_ms).toBeLessThan(3000)
    })

  if (sleep !== undefined && measured('cpu_ms'))
    test('counts no CPU time for sleeping', async () => {
      const { exit } = await h.once(sleep(1500))
      expect(exit.usage.cpu_ms).toBeLessThan(1000)
    })

  if (fillMemory !== undefined && measured('peak_memory_bytes'))
    test('measures peak memory', async () => {
      const { exit } = await h.once(fillMemory(100), { limits: { memory_mib: 512 } })
      expect(exit.usage.peak_memory_bytes).toBeGreaterThan(100 << 20)
      expect(exit.usage.peak_memory_bytes).toBeLessThan(400 << 20)
    })
}
