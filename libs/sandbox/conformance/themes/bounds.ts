/** The declared limits hold against programs that try to exceed them. */
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'
import { leastOfTwice500 } from './usage.ts'

export function bounds(h: Harness): void {
  const { fillMemory, takeMemory, fork, fillDisk, burn } = h.programs
  const enforced = (limit: 'memory' | 'cpus' | 'pids' | 'disk'): boolean =>
    h.capabilities.enforces.includes(limit)

  if (fillMemory !== undefined && enforced('memory')) {
    test('ends a program that takes more memory than allowed, and reports the reason', async () => {
      const { exit, stdout } = await h.once(fillMemory(512), { limits: { memory_mib: 96 } })
      expect(stdout.toString()).not.toContain('survived')
      expect(exit.exitCode).not.toBe(0)
      expect(exit.signal).toBe('SIGKILL')
      expect(exit.oomKills).toBeGreaterThan(0)
    })
    test('lets a program use its promised memory', async () => {
      const { exit, stdout } = await h.once(fillMemory(128), { limits: { memory_mib: 192 } })
      expect({ stdout: stdout.toString(), oomKills: exit.oomKills }).toEqual({
        stdout: 'survived\n',
        oomKills: 0,
      })
    })
  }

  if (takeMemory !== undefined && enforced('memory'))
    test('gives a program no more memory than allowed, and little less', async () => {
      const { exit, stdout } = await h.once(takeMemory(), { limits: { memory_mib: 96 } })
      expect(exit.oomKills).toBeGreaterThan(0)
      const taken = stdout.toString().split('\n').length - 1
      // The interpreter's memory counts as the program's.
      expect(taken).toBeGreaterThan(96 - 24)
      expect(taken).toBeLessThanOrEqual(96 + 8)
    })

  if (fork !== undefined && enforced('pids'))
    test('refuses processes above the limit, reports that, and ends the program in order', async () => {
      const { exit, stdout } = await h.once(fork(200), { limits: { pids: 24 } })
      expect(Number(stdout.toString())).toBeGreaterThan(8)
      expect(Number(stdout.toString())).toBeLessThan(24)
      expect(exit).toMatchObject({ exitCode: 0, pidsLimitHit: true })
      // Processes that the program left, if the backend counts them.
      expect(exit.processesLeft ?? 24).toBeGreaterThan(8)
    })

  if (fillDisk !== undefined && enforced('disk'))
    test('refuses bytes above the limit like a full disk', async () => {
      const { exit, stdout } = await h.once(fillDisk(64), { limits: { disk_mib: 8 } })
      expect(exit).toMatchObject({ exitCode: 0, signal: null })
      const [size, why] = stdout.toString().trim().split(' ')
      expect(Number(size)).toBeGreaterThan(4 << 20)
      expect(Number(size)).toBeLessThanOrEqual(8 << 20)
      expect(why).toBe('ENOSPC')
    })

  if (burn !== undefined && enforced('cpus') && h.capabilities.measures.includes('cpu_ms'))
    test('gives a program no more CPU than allowed', async () => {
      const { exit } = await h.once(burn(500), { limits: { cpus: 0.5 } })
      // One CFS period of slack (100 ms) at each end.
      expect(exit.usage.cpu_ms ?? 0).toBeLessThanOrEqual(0.5 * exit.usage.wall_ms + 200)
      expect(exit.usage.cpu_ms ?? 0).toBeGreaterThan(leastOfTwice500(h))
    })
}
