/** What happens to an attempt that is cancelled, drained or fenced, phase by phase. */
import { CofferdamError, StopReason } from '@cofferdam/contract'
import { describe, expect, it, vi } from 'vitest'
import { createMemoryBudget } from './memory-budget.ts'
import { MiB, attemptOf, harness } from '../test/attempts.ts'
import { exitOf, never, scriptedBackend, type Script } from '../test/scripted-backend.ts'

describe('stopping an attempt', () => {
  type Phase = 'memory' | 'probe' | 'open' | 'write' | 'begin' | 'run' | 'artifacts'

  /** Stops the attempt as it enters a phase that would hang otherwise. */
  async function stoppedIn(phase: Phase, cause: 'cancelled' | 'drain' | 'lock_lost') {
    const entered = Promise.withResolvers<void>()
    const hang = (at: Phase) => async (): Promise<void> => {
      if (at !== phase) return
      entered.resolve()
      await never()
    }
    const backend = scriptedBackend({
      probe: async () => (await hang('probe')(), { ok: true, features: [] }),
      open: hang('open'),
      write: hang('write'),
      run: async () => (await hang('run')(), exitOf()),
      list: async () => (await hang('artifacts')(), []),
    })
    const { executor, blobs } = harness([backend], {
      timings: { cancelGraceMs: 5 },
      memory: createMemoryBudget(256 * MiB),
    })
    using _other = phase === 'memory' ? executor.memory.tryAcquire(256 * MiB) : null
    const attempt = attemptOf(
      { files: [{ path: 'a', content: 'x' }], artifacts: ['*'] },
      {
        onBegin: async () => {
          if (phase !== 'begin') return
          throw new StopReason(cause)
        },
      },
    )
    if (phase === 'memory' || phase === 'begin') entered.resolve()
    const running = executor.execute(attempt)
    running.catch(() => {})
    await entered.promise
    if (phase !== 'begin') attempt.stop(cause)
    const ended = await running.then(
      (outcome) => ({ outcome, error: null }),
      (error: unknown) => ({ outcome: null, error }),
    )
    expect(backend.live).toBe(0)
    expect(executor.memory.waiting).toBe(0)
    expect(blobs.open).toBe(0)
    return ended
  }

  it.each<Phase>(['memory', 'probe', 'open', 'write', 'begin'])(
    'by a cancel in %s ends it as cancelled, not begun',
    async (phase) => {
      expect((await stoppedIn(phase, 'cancelled')).outcome).toMatchObject({
        ending: 'cancelled',
        began: false,
      })
    },
  )

  it('by a cancel in run ends it as cancelled, begun', async () => {
    expect((await stoppedIn('run', 'cancelled')).outcome).toMatchObject({ ending: 'cancelled', began: true })
  })

  it('by a cancel while artifacts are taken keeps the ending of the program', async () => {
    expect((await stoppedIn('artifacts', 'cancelled')).outcome).toMatchObject({ ending: 'ok', began: true })
  })

  it.each<Phase>(['memory', 'probe', 'open', 'write', 'begin'])(
    'by a drain in %s rejects, so that it can be given back',
    async (phase) => {
      expect((await stoppedIn(phase, 'drain')).error).toMatchObject({
        name: 'StopReason',
        stopCause: 'drain',
      })
    },
  )

  it('by a drain during the run ends it as worker_lost, because it is not run again', async () => {
    expect((await stoppedIn('run', 'drain')).outcome).toMatchObject({
      ending: 'worker_lost',
      reason: 'drained',
      began: true,
    })
  })

  it.each<Phase>(['memory', 'open', 'begin', 'run', 'artifacts'])(
    'by a lost lock in %s rejects as fenced',
    async (phase) => {
      expect((await stoppedIn(phase, 'lock_lost')).error).toMatchObject({ code: 'fenced' })
    },
  )

  it('by a cancel lets the program clean up within its grace period', async () => {
    const backend = scriptedBackend({
      run: async ({ out, interrupted }) => {
        await interrupted
        await out('cleaned up')
        return exitOf({ exitCode: 130 })
      },
    })
    const { executor } = harness([backend])
    const attempt = attemptOf({}, {})
    const running = executor.execute({
      ...attempt,
      onBegin: async () => void setImmediate(() => attempt.stop('cancelled')),
    })
    expect(await running).toMatchObject({
      ending: 'cancelled',
      exitCode: 130,
      stdout: { text: 'cleaned up' },
    })
  })

  it('by a cancel during begin does not start the program', async () => {
    const run = vi.fn<NonNullable<Script['run']>>()
    const backend = scriptedBackend({ run })
    const { executor } = harness([backend])
    const attempt = attemptOf()
    const outcome = await executor.execute({ ...attempt, onBegin: async () => attempt.stop('cancelled') })
    expect(outcome).toMatchObject({ ending: 'cancelled', began: true })
    expect(run).not.toHaveBeenCalled()
  })

  it('by a begin that is fenced rejects as fenced', async () => {
    const backend = scriptedBackend()
    const { executor } = harness([backend])
    const attempt = attemptOf({}, { onBegin: () => Promise.reject(new CofferdamError('fenced')) })
    await expect(executor.execute(attempt)).rejects.toMatchObject({ code: 'fenced' })
    expect(backend.live).toBe(0)
  })

  it('by a begin that fails otherwise ends it as provisioning', async () => {
    const { executor } = harness([scriptedBackend()])
    const attempt = attemptOf({}, { onBegin: () => Promise.reject(new CofferdamError('queue_unavailable')) })
    expect(await executor.execute(attempt)).toMatchObject({
      ending: 'provisioning',
      reason: 'queue_unavailable',
      began: false,
    })
  })
})
