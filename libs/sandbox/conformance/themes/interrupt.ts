/** The soft stop reaches the program; what ignores it dies by dispose. */
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

  test('ends a program that does nothing about it, and keeps what it printed', async () => {
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
    test('gives a program half of its time between the deadlines before it is terminated', async () => {
      const program = interruptedFor()
      const sandbox = await h.open(program, { limits: { soft_timeout_ms: 1000, hard_timeout_ms: 7000 } })
      const { ended } = await h.start(sandbox, program, 'ready')
      await sandbox.interrupt()
      const [, waitedMs] = (await ended).stdout.toString().split('\n')
      // 3,000 ms from signal to signal, less the time that a busy host takes to deliver the first one.
      expect(Number(waitedMs)).toBeGreaterThan(2000)
    })

  test('does nothing without a running program, and can be called twice', async () => {
    const sandbox = await h.open(programs.exit(3))
    await sandbox.interrupt()
    expect((await h.run(sandbox, programs.exit(3))).exit.exitCode).toBe(3)
    await Promise.all([sandbox.interrupt(), sandbox.interrupt()])
  })

  test('leaves a program that ignores it to dispose, which kills it', async () => {
    const program = programs.ignoreInterrupts()
    const sandbox = await h.open(program)
    const { ended } = await h.start(sandbox, program, 'ready')
    await sandbox.interrupt()
    const startedAt = performance.now()
    await sandbox[Symbol.asyncDispose]()
    // The promise is 250 ms on an idle machine. Tests share theirs, so this only asserts that dispose does
    // not wait for the program.
    expect(performance.now() - startedAt).toBeLessThan(20_000)
    await expect(ended).rejects.toMatchObject({ code: 'sandbox_lost' })
  })
}
