/** The session that an execution gets for its run by default is never the reason for a refusal. */
import { CofferdamError, type SandboxSpec } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { attemptOf, harness } from '../test/attempts.ts'
import { scriptedBackend, type Script } from '../test/scripted-backend.ts'

/** An attempt in its run's session, as the queue passes it on. The API does not accept such a key. */
function inRunSession(request: Parameters<typeof attemptOf>[0] = {}) {
  const attempt = attemptOf({ run_id: 'r', ...request })
  return {
    ...attempt,
    request: {
      ...attempt.request,
      reuse: 'job' as const,
      session: { key: 'run:a1:r', scope: 'files' as const },
    },
  }
}

/** A backend that opens sandboxes without a session, and throws `error` for one with a session. */
const saying = (error: Error, script: Script = {}) =>
  scriptedBackend({
    ...script,
    open: async ({ session }) => {
      if (session !== null) throw error
    },
  })

const reuses = (specs: readonly SandboxSpec[]) =>
  specs.map(({ reuse, session }) => [reuse, session?.key ?? null])
const IN_IT = ['session', 'run:a1:r']
const OWN = ['job', null]

describe('an execution in the session of its run', () => {
  it('runs in that session', async () => {
    const backend = scriptedBackend()
    const attempt = inRunSession()
    expect(await harness([backend]).executor.execute(attempt)).toMatchObject({ ending: 'ok' })
    expect(reuses(backend.specs)).toEqual([IN_IT])
    expect(attempt.notices).toEqual([])
  })

  it.each(['conflict', 'session_not_found', 'fenced', 'sandbox_open_failed'] as const)(
    'runs in its own sandbox on %s, with the reason, and opens no circuit',
    async (code) => {
      const backend = saying(new CofferdamError(code, 'The session has other limits.'))
      const { executor } = harness([backend])
      for (let n = 0; n < 3; n += 1) {
        const attempt = inRunSession({ limits: { memory_mib: 512 } })
        expect(await executor.execute(attempt)).toMatchObject({
          ending: 'ok',
          began: true,
          session: null,
        })
        expect(attempt.begun).toEqual([{ backend: 'scripted', isolation: 'container', ownSandbox: true }])
        expect(attempt.notices).toEqual([
          expect.stringMatching(
            /^Runs in a sandbox of its own, not in the session of its run: .*other limits/,
          ),
        ])
      }
      expect(reuses(backend.specs)).toEqual([IN_IT, OWN, IN_IT, OWN, IN_IT, OWN])
      expect(backend.live).toBe(0)
    },
  )

  it('runs on a backend without sessions, but prefers one that has them', async () => {
    const without = scriptedBackend({ name: 'without', capabilities: { sessions: [] } })
    const attempt = inRunSession()
    expect(await harness([without]).executor.execute(attempt)).toMatchObject({
      ending: 'ok',
      backend: 'without',
    })
    expect(reuses(without.specs)).toEqual([OWN])
    expect(attempt.notices).toHaveLength(1)
    const withIt = scriptedBackend({ name: 'with' })
    const both = harness([without, withIt])
    expect(await both.executor.execute(inRunSession())).toMatchObject({ ending: 'ok', backend: 'with' })
    expect(await both.executor.execute(inRunSession({ backend: 'without' }))).toMatchObject({
      ending: 'ok',
      backend: 'without',
    })
  })

  it('runs elsewhere when the backends with sessions cannot open anything', async () => {
    const broken = scriptedBackend({
      name: 'broken',
      open: () => Promise.reject(new CofferdamError('sandbox_open_failed', 'broken')),
    })
    const without = scriptedBackend({ name: 'without', capabilities: { sessions: ['none'] } })
    expect(await harness([broken, without]).executor.execute(inRunSession())).toMatchObject({
      ending: 'ok',
      backend: 'without',
      passedOver: expect.arrayContaining([{ backend: 'broken', reason: 'sandbox_open_failed' }]),
    })
  })

  it('is refused for the same reasons as without the session, without a notice', async () => {
    const backend = scriptedBackend({ capabilities: { languages: [] } })
    const attempt = inRunSession()
    const outcome = await harness([backend]).executor.execute(attempt)
    const alone = await harness([backend]).executor.execute(attemptOf())
    expect(outcome).toMatchObject({ ending: 'provisioning', reason: 'capability_missing', began: false })
    expect(outcome.failureReason).toBe(alone.failureReason)
    expect(attempt.notices).toEqual([])
  })

  it('waits for capacity like any other execution', async () => {
    const full = new CofferdamError('backend_unavailable', 'no room', { details: { full: true } })
    const backend = scriptedBackend({ open: () => Promise.reject(full) })
    expect(await harness([backend]).executor.execute(inRunSession())).toMatchObject({
      reason: 'backend_full',
    })
  })

  it('ends as cancelled if it is cancelled while the session is opened', async () => {
    const backend = scriptedBackend({
      open: (_spec, signal) =>
        new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    })
    const attempt = inRunSession()
    const running = harness([backend]).executor.execute(attempt)
    await expect.poll(() => backend.specs.length, { timeout: 10_000 }).toBe(1)
    attempt.stop('cancelled')
    expect(await running).toMatchObject({ ending: 'cancelled', began: false })
    expect(reuses(backend.specs)).toEqual([IN_IT])
  })

  it('differs from a session that the caller asked for, which is refused', async () => {
    const backend = saying(new CofferdamError('conflict', 'The session has other limits.'))
    const attempt = attemptOf({ run_id: 'r', session: { key: 'r' } })
    expect(await harness([backend]).executor.execute(attempt)).toMatchObject({
      ending: 'provisioning',
      reason: 'conflict',
    })
  })
})
