/** The abort signal stops every await that can hang, and leaves nothing (checked after each test). */
import { setTimeout as sleep } from 'node:timers/promises'
import { StopReason } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

export function abort(h: Harness): void {
  const { programs } = h

  test('opens nothing if the signal was aborted before', async () => {
    const reason = new StopReason('cancelled')
    await expect(h.open(programs.exit(0), {}, AbortSignal.abort(reason))).rejects.toBe(reason)
  })

  test.each([0, 3, 10, 30, 60, 100, 150, 250])('leaves nothing if aborted after %i ms', async (ms) => {
    const stop = new AbortController()
    const reason = new StopReason('cancelled')
    const opening = h.open(programs.exit(0), {}, stop.signal)
    const settled = opening.then(
      async (sandbox) => {
        await sandbox[Symbol.asyncDispose]()
        return 'opened'
      },
      (error: unknown) => error,
    )
    await sleep(ms)
    stop.abort(reason)
    expect(['opened', reason]).toContain(await settled)
  })

  test('ignores an abort after open has resolved', async () => {
    const stop = new AbortController()
    const sandbox = await h.open(programs.exit(5), {}, stop.signal)
    stop.abort(new StopReason('cancelled'))
    expect((await h.run(sandbox, programs.exit(5))).exit.exitCode).toBe(5)
  })

  test('stops waiting for a run with the signal’s reason, and dispose ends the program', async () => {
    const program = programs.ignoreInterrupts()
    const sandbox = await h.open(program)
    const stop = new AbortController()
    const reason = new StopReason('hard_deadline')
    const { ended } = await h.start(sandbox, program, 'ready', { signal: stop.signal })
    const startedAt = performance.now()
    stop.abort(reason)
    await expect(ended).rejects.toBe(reason)
    // Immediate on an idle machine. This only asserts that the abort does not wait for the program.
    expect(performance.now() - startedAt).toBeLessThan(20_000)
    await sandbox[Symbol.asyncDispose]()
  })

  test('does not begin a run if the signal was aborted before', async () => {
    const sandbox = await h.open(programs.exit(0))
    const reason = new StopReason('cancelled')
    await expect(h.run(sandbox, programs.exit(0), { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  })
}
