/** The soft stop reaches the program. Dispose kills a program that ignores it. */
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

export function interrupt(h: Harness): void {
  const { programs } = h
  if (!h.capabilities.interrupt) return

  test('lets the program clean up and choose its exit code', async () => {
    const program = programs.handleInterrupt('cleaned up', 7)
    const sandbox = await h.open(program)
    const { ended } = await h.start(sandbox, program, 'ready')
    await sandbox.interrupt()
    const { exit, stdout } = await ended
    expect(stdout.toString()).toBe('ready\ncleaned up\n')
    expect(exit).toMatchObject({ exitCode: 7, signal: null })
  })

  test('ends a program without a handler, and keeps its output', async () => {
    const program = programs.printThenWait('partial')
    const sandbox = await h.open(program)
    const { ended } = await h.start(sandbox, program, 'partial')
    await sandbox.interrupt()
    const { exit, stdout } = await ended
    expect(stdout.toString()).toBe('partial\n')
    expect(exit.exitCode).not.toBe(0)
  })

  const { interruptedFor } = programs
  if (interruptedFor !== undefined)
    test('gives an interrupted program half of the time between the deadlines before SIGTERM', async () => {
      const program = interruptedFor()
      const sandbox = await h.open(program, { limits: { soft_timeout_ms: 1000, hard_timeout_ms: 7000 } })
      const { ended } = await h.start(sandbox, program, 'ready')
      await sandbox.interrupt()
      const [, waitedMs] = (await ended).stdout.toString().split('\n')
      // 3,000 ms between the signals, minus a busy host's delay of the first one.
      expect(Number(waitedMs)).toBeGreaterThan(2000)
    })

  test('does nothing without a running program, and can be called twice', async () => {
    const sandbox = await h.open(programs.exit(3))
    await sandbox.interrupt()
    expect((await h.run(sandbox, programs.exit(3))).exit.exitCode).toBe(3)
    await Promise.all([sandbox.interrupt(), sandbox.interrupt()])
  })

  test('has dispose kill a program that ignores the interrupt', async () => {
    const program = programs.ignoreInterrupts()
    const sandbox = await h.open(program)
    const { ended } = await h.start(sandbox, program, 'ready')
    await sandbox.interrupt()
    const startedAt = performance.now()
    await sandbox[Symbol.asyncDispose]()
    // 250 ms on an idle machine. This only asserts that dispose does not wait for the program.
    expect(performance.now() - startedAt).toBeLessThan(20_000)
    await expect(ended).rejects.toMatchObject({ code: 'sandbox_lost' })
  })
}
