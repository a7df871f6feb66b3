import { CofferdamError, type Ending, type Exit } from '@cofferdam/contract'
import { describe, expect, it, vi } from 'vitest'
import { FULL_MAX_MS } from './full-backends.ts'
import { createMemoryBudget } from './memory-budget.ts'
import { MiB, attemptOf, harness, tenantOf } from '../test/attempts.ts'
import { createManualClock } from '../test/manual-clock.ts'
import { createMemoryBlobs } from '../test/memory-blobs.ts'
import { exitOf, never, scriptedBackend, type RunControl, type Script } from '../test/scripted-backend.ts'

/** Runs one program on one scripted backend and checks that nothing is left. */
async function executed(
  run: Script['run'],
  request: Parameters<typeof attemptOf>[0] = {},
  script: Script = {},
) {
  const backend = scriptedBackend({ ...script, ...(run === undefined ? {} : { run }) })
  const test = harness([backend])
  const attempt = attemptOf(request)
  const outcome = await test.executor.execute(attempt)
  expect(backend.live).toBe(0)
  expect(test.executor).toMatchObject({ running: 0, memory: { usedBytes: 0, waiting: 0 } })
  expect(test.blobs.open).toBe(0)
  return { outcome, attempt, backend, ...test }
}

describe('a program that ends by itself', () => {
  it('ends ok, with output, value, files and usage', async () => {
    const { outcome, attempt, backend, blobs } = await executed(
      async ({ out, err }) => {
        await out('hello\n')
        await err('careful\n')
        return exitOf({ valueJson: '{"n":1}', outputBytes: { stdout: 6, stderr: 8 } })
      },
      { files: [{ path: 'in.txt', content: 'x' }], artifacts: ['*.txt'] },
      { files: { 'out.txt': 'result' } },
    )
    expect(outcome).toMatchObject({
      ending: 'ok',
      exitCode: 0,
      began: true,
      backend: 'scripted',
      isolation: 'container',
      failureReason: null,
      reason: null,
      value: { n: 1 },
      stdout: { text: 'hello\n', bytes: 6, truncated: false, ref: null },
      stderr: { text: 'careful\n', bytes: 8 },
      usage: { cpu_ms: 3 },
      limits: { soft_timeout_ms: 25_000, hard_timeout_ms: 30_000, memory_mib: 256, pids: 128 },
      artifacts: [
        {
          path: 'out.txt',
          size: 6,
          sha256: 'f6a214f7a5fcda0c2cee9660b7fc29f5649e3c68aad48e20e950137c98913a68',
        },
      ],
    })
    expect(outcome.openMs).toBeGreaterThanOrEqual(0)
    expect(backend.written).toMatchObject([{ path: 'in.txt' }])
    expect(attempt.begun).toEqual([{ backend: 'scripted', isolation: 'container' }])
    expect(attempt.text).toEqual({ stdout: 'hello\n', stderr: 'careful\n' })
    expect([...blobs.committed.values()].map(String)).toEqual(['result'])
  })

  it.each<[Ending, Partial<Exit>, string, RegExp]>([
    ['error', { exitCode: 3 }, 'Traceback\nNameError: x\n', /exited with code 3: NameError: x$/],
    ['crashed', { exitCode: null, signal: 'SIGSEGV' }, '', /killed by SIGSEGV\.$/],
    ['oom', { exitCode: null, signal: 'SIGKILL', oomKills: 1 }, '', /limit is 256 MiB/],
    ['oom', { exitCode: 1 }, 'Traceback\nMemoryError\n', /limit is 256 MiB/],
    ['pids_limit', { exitCode: 1, pidsLimitHit: true }, 'BlockingIOError\n', /limit is 128/],
    ['disk_limit', { exitCode: 1, diskLimitHit: true }, 'No space left\n', /limit is 64 MiB/],
  ])('ends %s for %o and says why', async (ending, exit, stderr, reason) => {
    const { outcome } = await executed(async ({ err }) => {
      await err(stderr)
      return exitOf(exit)
    })
    expect(outcome).toMatchObject({ ending, began: true })
    expect(outcome.failureReason).toMatch(reason)
  })

  it('shows no secret in output, value, live text or failure reason', async () => {
    const secret = 'swordfish-swordfish'
    const { outcome, attempt } = await executed(
      async ({ out, err, spec }) => {
        const value = spec.env.MY_TOKEN ?? ''
        await out(value.slice(0, 7))
        await out(value.slice(7))
        await err(`failed with ${Buffer.from(value).toString('base64')}`)
        return exitOf({ exitCode: 1, valueJson: JSON.stringify({ value }) })
      },
      { env: { MY_TOKEN: secret } },
    )
    expect(outcome).toMatchObject({
      stdout: { text: '<redacted>' },
      stderr: { text: 'failed with <redacted>' },
      failureReason: 'The program exited with code 1: failed with <redacted>',
      value: { value: '<redacted>' },
      redactionCount: 3,
    })
    expect(attempt.text.stdout).toBe('<redacted>')
  })

  it('ends as the program did when its workspace cannot be stored, and names the reason', async () => {
    const backend = scriptedBackend({})
    const test = harness([backend])
    const workspace = {
      name: 'one-more',
      enter: async () => {},
      leave: () => Promise.reject(new CofferdamError('too_many_workspaces')),
    }
    const attempt = attemptOf({ workspace: { name: 'one-more' } }, { workspace })
    expect(await test.executor.execute(attempt)).toMatchObject({
      ending: 'ok',
      workspace: { name: 'one-more', status: 'failed', reason: 'too_many_workspaces', applied: [] },
    })
    expect(attempt.notices).toEqual([expect.stringContaining('too_many_workspaces')])
    expect(backend.live).toBe(0)
  })

  it('has a notice of the variables that were left out', async () => {
    const { attempt, backend } = await executed(undefined, { env: { LD_PRELOAD: 'x', A: 'b' } })
    expect(attempt.notices).toEqual([expect.stringContaining('LD_PRELOAD')])
    expect(backend.specs[0]?.env).toMatchObject({ A: 'b', HOME: '/tmp' })
    expect(backend.specs[0]?.env).not.toHaveProperty('LD_PRELOAD')
  })
})

describe('deadlines', () => {
  const limits = { soft_timeout_ms: 1000, hard_timeout_ms: 2000 }

  it('interrupt at the soft deadline and keep the output', async () => {
    const { outcome } = await executed(
      async ({ out, interrupted }) => {
        await out('partial')
        await interrupted
        await out(' and cleaned up')
        return exitOf({ exitCode: 1 })
      },
      { limits: { soft_timeout_ms: 20, hard_timeout_ms: 60_000 } },
    )
    expect(outcome).toMatchObject({ ending: 'soft_timeout', stdout: { text: 'partial and cleaned up' } })
    expect(outcome.failureReason).toContain('20 ms')
  })

  it('count from the start of the program, not of the attempt', async () => {
    const clock = createManualClock()
    const opened = Promise.withResolvers<void>()
    const backend = scriptedBackend({ open: () => opened.promise, run: never })
    const { executor } = harness([backend], { clock })
    const running = executor.execute(attemptOf({ limits }))
    await clock.advance(5000)
    opened.resolve()
    await clock.advance(1999)
    expect(executor.running).toBe(1)
    await clock.advance(1)
    expect((await running).ending).toBe('hard_timeout')
    expect(clock.pending).toBe(0)
  })

  it('bound a disposal that hangs, which becomes a leak and keeps its memory', async () => {
    const clock = createManualClock()
    const disposed = Promise.withResolvers<void>()
    const backend = scriptedBackend({
      run: async ({ out }) => {
        await out('partial')
        return never()
      },
      dispose: () => disposed.promise,
    })
    const { executor, leaked, errors } = harness([backend], { clock, timings: { disposeProofMs: 300 } })
    const running = executor.execute(attemptOf({ limits }))
    await clock.advance(2000)
    await clock.advance(300)
    expect(await running).toMatchObject({
      ending: 'hard_timeout',
      stdout: { text: 'partial' },
      exitCode: null,
    })
    expect(leaked).toMatchObject([{ ref: { backend: 'scripted' }, attempt: 1 }])
    expect(errors).toEqual(['a sandbox was not proven gone'])
    expect(executor.memory.usedBytes).toBe(256 * MiB)
    disposed.resolve()
    await vi.waitFor(() => expect(executor.memory.usedBytes).toBe(0), 15_000)
    expect(clock.pending).toBe(0)
  })

  it('report a disposal that throws as a leak', async () => {
    const backend = scriptedBackend({ dispose: () => Promise.reject(new Error('daemon away')) })
    const { executor, leaked } = harness([backend])
    const outcome = await executor.execute(attemptOf())
    expect(outcome.ending).toBe('ok')
    expect(leaked).toMatchObject([{ why: { message: 'daemon away' } }])
  })

  it('keep the memory for a minute if the disposal threw, because the sandbox may still run', async () => {
    const clock = createManualClock()
    const backend = scriptedBackend({ dispose: () => Promise.reject(new Error('daemon away')) })
    const { executor } = harness([backend], { clock })
    await executor.execute(attemptOf())
    await clock.advance(59_999)
    expect(executor.memory.usedBytes).toBe(256 * MiB)
    await clock.advance(1)
    await vi.waitFor(() => expect(executor.memory.usedBytes).toBe(0), 15_000)
    expect(clock.pending).toBe(0)
  })
})

describe('output bounds', () => {
  it('keeps the head of stdout and the tail of stderr, and stores both in full', async () => {
    const { outcome, blobs } = await executed(
      async ({ out, err }) => {
        await out('0123456789')
        await err('0123456789')
        return exitOf({ exitCode: 1 })
      },
      { limits: { stdout_bytes: 4, stderr_bytes: 4 } },
    )
    expect(outcome.stdout).toMatchObject({ text: '0123', truncated: true, bytes: 10 })
    expect(outcome.stderr).toMatchObject({ text: '6789', truncated: true, bytes: 10 })
    expect([...blobs.committed.values()].map(String)).toEqual(['0123456789', '0123456789'])
  })

  it.each([
    ['while it runs', async ({ out }: RunControl) => (await out('0123456789'), never())],
    ['at its end', async ({ out }: RunControl) => (await out('0123456789'), exitOf())],
    ['as the backend counts', async () => exitOf({ outputBytes: { stdout: 10, stderr: 0 } })],
  ])('end a program with output_limit if the request says kill: %s', async (_when, run) => {
    const { outcome } = await executed(run, { limits: { stdout_bytes: 4, on_output_limit: 'kill' } })
    expect(outcome).toMatchObject({ ending: 'output_limit', stdout: { bytes: 10, truncated: true } })
    expect(outcome.stdout.text.length).toBeLessThanOrEqual(4)
  })

  it.each(['create', 'write', 'commit'] as const)('survive a blob store that fails to %s', async (step) => {
    const backend = scriptedBackend({ run: async ({ out }) => (await out('0123456789'), exitOf()) })
    const blobs = createMemoryBlobs(step)
    const { executor, errors } = harness([backend], { blobs })
    const attempt = attemptOf({ limits: { stdout_bytes: 4 } })
    expect(await executor.execute(attempt)).toMatchObject({
      ending: 'ok',
      stdout: { text: '0123', truncated: true, ref: null },
    })
    expect(errors).toEqual(['the full stdout could not be stored'])
    expect(attempt.notices).toHaveLength(1)
    expect(blobs.open).toBe(0)
  })

  it('has one notice for each stream of which no more is kept', async () => {
    const { outcome, attempt } = await executed(async ({ err, io }) => {
      for (let n = 0; n < 20; n++) await io.onOutput('stdout', Buffer.alloc(MiB, '.'))
      await err('the other one goes on')
      return exitOf()
    })
    expect(outcome.stdout).toMatchObject({ bytes: 20 * MiB, truncated: true })
    expect(attempt.notices).toEqual(['16 MiB of stdout were read. What follows is counted and not kept.'])
  })

  it('hold little memory for 1 GiB of output that ignores backpressure', async () => {
    const chunk = Buffer.alloc(MiB, 'flood ')
    let most = 0
    const { outcome } = await executed(
      async ({ io }) => {
        const before = process.memoryUsage.rss()
        for (let n = 0; n < 1024; n++) {
          void io.onOutput('stdout', chunk)
          if (n % 64 === 0) most = Math.max(most, process.memoryUsage.rss() - before)
        }
        return exitOf()
      },
      { limits: { stdout_bytes: 1024 } },
    )
    expect(outcome.stdout).toMatchObject({ bytes: 1024 * MiB, truncated: true })
    // Up to 16 MiB of the full copy wait for the store. The measured memory also has about as much garbage,
    // and the runtime's own memory.
    expect(most).toBeLessThan(160 * MiB)
  })
})

describe('a sandbox that is lost', () => {
  it('reports why the backend refused the program, without secrets', async () => {
    const { outcome } = await executed(
      async () => {
        const message = 'AccessDeniedException: s3cret-of-the-request may not'
        throw new CofferdamError('sandbox_lost', message, { details: { reason: 'not_begun' } })
      },
      { env: { API_TOKEN: 's3cret-of-the-request' } },
    )
    expect(outcome).toMatchObject({ ending: 'provisioning', reason: 'not_begun', began: false })
    expect(outcome.failureReason).toBe(
      'The program did not run, because its backend refused it. AccessDeniedException: <redacted> may not',
    )
  })

  it.each([
    [new CofferdamError('sandbox_lost'), 'sandbox_lost', 'sandbox_lost'],
    [new CofferdamError('protocol_violation'), 'sandbox_lost', 'protocol_violation'],
    [new CofferdamError('sandbox_lost', undefined, { details: { oomKills: 1 } }), 'oom', null],
    [
      new CofferdamError('sandbox_lost', undefined, { details: { reason: 'session_timeout' } }),
      'hard_timeout',
      'session_timeout',
    ],
    [new TypeError('a bug'), 'sandbox_lost', 'internal'],
  ])('after %s ends %s', async (error, ending, reason) => {
    const { outcome } = await executed(async ({ out }) => {
      await out('partial')
      throw error
    })
    expect(outcome).toMatchObject({ ending, reason, began: true, stdout: { text: 'partial' } })
    expect(outcome.failureReason).not.toContain('a bug')
  })
})

describe('the choice of a backend', () => {
  const failing = (name: string, code: 'sandbox_open_failed' | 'backend_unavailable', script: Script = {}) =>
    scriptedBackend({ ...script, name, open: () => Promise.reject(new CofferdamError(code)) })

  it('falls back to the next one when a sandbox does not open', async () => {
    const backends = [
      failing('a', 'sandbox_open_failed'),
      failing('b', 'backend_unavailable'),
      scriptedBackend({ name: 'c' }),
    ]
    const { executor } = harness(backends)
    expect(await executor.execute(attemptOf())).toMatchObject({
      ending: 'ok',
      backend: 'c',
      passedOver: [
        { backend: 'a', reason: 'sandbox_open_failed' },
        { backend: 'b', reason: 'backend_unavailable' },
      ],
    })
  })

  it('names those that did not fit before the one that ran it, and none after it', async () => {
    const backends = [
      scriptedBackend({ name: 'weak', isolation: 'none' }),
      failing('broken', 'backend_unavailable'),
      scriptedBackend({ name: 'closed', isolation: 'container', capabilities: { stdin: false } }),
      scriptedBackend({ name: 'open', isolation: 'container' }),
      scriptedBackend({ name: 'also weak', isolation: 'none' }),
    ]
    const { executor } = harness(backends)
    const tenant = tenantOf({ min_isolation: 'process' })
    expect(await executor.execute(attemptOf({ stdin: 'x' }, { tenant }))).toMatchObject({
      ending: 'ok',
      backend: 'open',
      passedOver: [
        { backend: 'weak', reason: 'isolation_unavailable' },
        { backend: 'broken', reason: 'backend_unavailable' },
        { backend: 'closed', reason: 'capability_missing' },
      ],
    })
  })

  it.each(['conflict', 'session_not_found', 'fenced'] as const)(
    'ends with %s if a session is refused, and opens no circuit',
    async (code) => {
      const own = scriptedBackend({
        name: 'own',
        open: () => Promise.reject(new CofferdamError(code, 'The session says no.')),
      })
      const other = scriptedBackend({ name: 'other' })
      const { executor } = harness([own, other], { circuit: { threshold: 2 } })
      for (let n = 0; n < 5; n++)
        expect(await executor.execute(attemptOf())).toMatchObject({
          ending: 'provisioning',
          reason: code,
          failureReason: 'The session says no.',
          began: false,
        })
      expect([own.specs.length, other.specs.length]).toEqual([5, 0])
    },
  )

  it('looks for a required session on each backend, and refuses when none has it', async () => {
    const without = (name: string) =>
      scriptedBackend({
        name,
        open: () => Promise.reject(new CofferdamError('session_not_found')),
      })
    const [a, b] = [without('a'), without('b')]
    const asked = attemptOf({ session: { key: 'k', scope: 'files', must_exist: true } })
    const found = harness([a, scriptedBackend({ name: 'c' })])
    expect(await found.executor.execute(asked)).toMatchObject({ ending: 'ok', backend: 'c' })
    const { executor } = harness([a, b], { circuit: { threshold: 1 } })
    for (let n = 0; n < 2; n++)
      expect(await executor.execute(asked)).toMatchObject({
        ending: 'provisioning',
        reason: 'session_not_found',
        failureReason: expect.stringMatching(/a has no session.*b has no session/),
        began: false,
      })
    expect(a.specs[0]?.session).toEqual({ key: 'k', scope: 'files', idleMs: null, mustExist: true })
  })

  it('gives up after three opens, and names each', async () => {
    const backends = ['a', 'b', 'c', 'd'].map((name) => failing(name, 'sandbox_open_failed'))
    const { executor } = harness(backends)
    const outcome = await executor.execute(attemptOf())
    expect(outcome).toMatchObject({ ending: 'provisioning', reason: 'sandbox_open_failed', began: false })
    expect(outcome.failureReason).toMatch(/a failed.*b failed.*c failed/)
    expect(backends[3]?.specs).toHaveLength(0)
  })

  it('never falls back to weaker isolation', async () => {
    const weak = scriptedBackend({ name: 'weak', isolation: 'process' })
    const { executor } = harness([failing('strong', 'sandbox_open_failed'), weak])
    const outcome = await executor.execute(
      attemptOf({ min_isolation: 'none' }, { tenant: tenantOf({ min_isolation: 'container' }) }),
    )
    expect(outcome).toMatchObject({ ending: 'provisioning', reason: 'sandbox_open_failed' })
    expect(outcome.failureReason).toContain('weak isolates by process')
    expect(weak.specs).toHaveLength(0)
  })

  it('destroys a sandbox that is weaker than its backend said', async () => {
    const liar = scriptedBackend({ name: 'liar', sandboxIsolation: 'none' })
    const { executor } = harness([liar])
    const attempt = attemptOf({}, { tenant: tenantOf({ min_isolation: 'container' }) })
    expect(await executor.execute(attempt)).toMatchObject({
      ending: 'provisioning',
      reason: 'isolation_unavailable',
    })
    expect(liar.live).toBe(0)
    expect(attempt.begun).toEqual([])
  })

  it('does not fall back once the program began', async () => {
    const other = scriptedBackend({ name: 'other' })
    const { executor } = harness([
      scriptedBackend({ run: () => Promise.reject(new CofferdamError('sandbox_lost')) }),
      other,
    ])
    expect((await executor.execute(attemptOf())).ending).toBe('sandbox_lost')
    expect(other.specs).toHaveLength(0)
  })

  it('ends with provisioning for an unknown backend', async () => {
    const { outcome } = await executed(undefined, { backend: 'dokcer' })
    expect(outcome).toMatchObject({
      ending: 'provisioning',
      reason: 'backend_unknown',
      backend: null,
      began: false,
    })
  })

  it.each<[string, NonNullable<Script['probe']>, string]>([
    ['says no', async () => ({ ok: false, why: 'no daemon', fix: 'start it' }), 'no daemon'],
    ['throws', () => Promise.reject(new Error('probe broke')), 'probe broke'],
  ])('passes over a backend whose probe %s', async (_case, probe, why) => {
    const { outcome, backend } = await executed(undefined, {}, { probe })
    expect(outcome).toMatchObject({ ending: 'provisioning', reason: 'backend_unavailable' })
    expect(outcome.failureReason).toContain(why)
    expect(backend.specs).toHaveLength(0)
  })

  it('probes once in 30 s, and again after a failed open', async () => {
    const clock = createManualClock()
    let fails = false
    const backend = scriptedBackend({
      open: async () => {
        if (fails) throw new CofferdamError('sandbox_open_failed')
      },
    })
    const { executor } = harness([backend], { clock })
    await Promise.all([executor.execute(attemptOf()), executor.execute(attemptOf())])
    expect(backend.probes).toBe(1)
    await clock.advance(30_000)
    await executor.execute(attemptOf())
    expect(backend.probes).toBe(2)
    fails = true
    await executor.execute(attemptOf())
    await executor.execute(attemptOf())
    expect(backend.probes).toBe(3)
  })

  it('opens the circuit of a backend that keeps failing, and tries it again later', async () => {
    const clock = createManualClock()
    const backend = failing('broken', 'sandbox_open_failed')
    const { executor } = harness([backend], { clock, circuit: { threshold: 3, cooldownMs: 1000 } })
    expect(executor.circuit('broken')).toBe('closed')
    for (let n = 0; n < 5; n++) await executor.execute(attemptOf())
    expect(backend.specs).toHaveLength(3)
    expect(executor.circuit('broken')).toBe('open')
    expect((await executor.execute(attemptOf())).reason).toBe('backend_unavailable')
    await clock.advance(1000)
    expect(executor.circuit('broken')).toBe('half-open')
    await executor.execute(attemptOf())
    expect(backend.specs).toHaveLength(4)
  })

  it('waits for a full backend or takes the next one, and gives up after an hour', async () => {
    const clock = createManualClock()
    let isFull = true
    const full = scriptedBackend({
      name: 'full',
      open: () => {
        if (isFull)
          throw new CofferdamError('backend_unavailable', 'The pool is full.', { details: { full: true } })
        return Promise.resolve()
      },
    })
    const waits = {
      ending: 'provisioning',
      reason: 'backend_full',
      failureReason: 'No backend can run this: full has no room: The pool is full.',
      began: false,
    }
    const { executor } = harness([full], { clock, circuit: { threshold: 2 } })
    const together = await Promise.all(Array.from({ length: 3 }, () => executor.execute(attemptOf())))
    expect(together).toMatchObject([waits, waits, waits])
    for (const [afterMs, asked] of [
      [0, 0],
      [1000, 1],
      [1000, 0],
      [1000, 1],
      [15_000, 1],
      [14_000, 1],
      [14_000, 0],
      [1000, 1],
    ] as const) {
      await clock.advance(afterMs)
      const before = full.specs.length
      // After a pause that grows to 15 s, one attempt asks the backend again. The others get its last answer.
      for (let n = 0; n < 3; n++) expect(await executor.execute(attemptOf())).toMatchObject(waits)
      expect(full.specs.length - before, `${afterMs} ms later`).toBe(asked)
    }
    // An attempt in a session always asks the backend, because the session's sandbox may already exist.
    const before = full.specs.length
    await executor.execute(attemptOf({ reuse: 'session', session: { key: 'kept' } }))
    expect(full.specs.length - before).toBe(1)

    const other = scriptedBackend({ name: 'other' })
    const beside = harness([full, other])
    expect(await beside.executor.execute(attemptOf())).toMatchObject({
      ending: 'ok',
      backend: 'other',
      passedOver: [{ backend: 'full', reason: 'backend_full' }],
    })

    // An hour without any attempt does not count as an hour of waiting.
    await clock.advance(FULL_MAX_MS)
    expect(await executor.execute(attemptOf())).toMatchObject(waits)
    const waitTooLong = async (): Promise<void> => {
      for (let waitedMs = 0; waitedMs < FULL_MAX_MS; waitedMs += FULL_MAX_MS / 10) {
        expect(await executor.execute(attemptOf())).toMatchObject(waits)
        await clock.advance(FULL_MAX_MS / 10)
      }
    }
    await waitTooLong()
    expect(await executor.execute(attemptOf())).toMatchObject({ reason: 'backend_unavailable' })
    isFull = false
    await clock.advance(15_000)
    await executor.execute(attemptOf())
    isFull = true
    expect(await executor.execute(attemptOf())).toMatchObject(waits)

    // A session that gets its sandbox shows that executions on this backend end, so the wait starts anew.
    await waitTooLong()
    isFull = false
    await executor.execute(attemptOf({ reuse: 'session', session: { key: 'kept' } }))
    isFull = true
    expect(await executor.execute(attemptOf())).toMatchObject(waits)
  })

  it('keeps the circuit closed if one tenant is not provisioned, and reports that', async () => {
    const backend = scriptedBackend({
      open: () => Promise.reject(new CofferdamError('interpreter_not_ready', 'Tenant t1 has none yet.')),
    })
    const test = harness([backend])
    for (let round = 0; round < 6; round += 1)
      expect(await test.executor.execute(attemptOf())).toMatchObject({
        ending: 'provisioning',
        began: false,
        reason: 'interpreter_not_ready',
        failureReason: 'No backend can run this: scripted is not ready: Tenant t1 has none yet.',
      })
  })

  it('does not probe a backend that is switched off for the attempt, and takes the next one', async () => {
    const off = scriptedBackend({ name: 'off' })
    const on = scriptedBackend({ name: 'on' })
    const { executor } = harness([off, on])
    const refusesBackend = async (name: string) => (name === 'off' ? 'is switched off' : null)
    expect(await executor.execute(attemptOf({}, { refusesBackend }))).toMatchObject({
      ending: 'ok',
      backend: 'on',
      passedOver: [{ backend: 'off', reason: 'sandbox_disabled' }],
    })
    expect(await executor.execute(attemptOf({ backend: 'off' }, { refusesBackend }))).toMatchObject({
      ending: 'provisioning',
      began: false,
      reason: 'sandbox_disabled',
      failureReason: 'No backend can run this: off is switched off.',
    })
    expect(off.probes).toBe(0)
    expect(off.specs).toHaveLength(0)
  })

  it('gives up an open that hangs, and destroys a sandbox that comes late', async () => {
    const clock = createManualClock()
    const late = Promise.withResolvers<void>()
    const backend = scriptedBackend({ open: () => late.promise })
    const { executor } = harness([backend], { clock })
    const running = executor.execute(attemptOf())
    await clock.advance(60_000)
    expect(await running).toMatchObject({ ending: 'provisioning', reason: 'sandbox_open_failed' })
    expect(executor.memory.usedBytes).toBe(256 * MiB)
    late.resolve()
    await vi.waitFor(() => expect(executor.memory.usedBytes).toBe(0), 15_000)
    expect(backend.live).toBe(0)
  })

  it('ends with provisioning when the files cannot be written', async () => {
    const { outcome, attempt } = await executed(
      undefined,
      { files: [{ path: 'a', content: 'x' }] },
      {
        write: () => Promise.reject(new CofferdamError('payload_too_large', 'a is too large')),
      },
    )
    expect(outcome).toMatchObject({
      ending: 'provisioning',
      reason: 'prepare_failed',
      began: false,
      backend: 'scripted',
    })
    expect(outcome.failureReason).toContain('a is too large')
    expect(attempt.begun).toEqual([])
  })

  it('waits for memory, and ends with provisioning if there is never enough', async () => {
    const gate = Promise.withResolvers<void>()
    const backend = scriptedBackend({ run: async () => (await gate.promise, exitOf()) })
    const { executor } = harness([backend], { memory: createMemoryBudget(300 * MiB) })
    const first = executor.execute(attemptOf())
    const second = executor.execute(attemptOf())
    await vi.waitFor(
      () => expect(executor.memory).toMatchObject({ usedBytes: 256 * MiB, waiting: 1 }),
      15_000,
    )
    gate.resolve()
    expect([(await first).ending, (await second).ending]).toEqual(['ok', 'ok'])
    expect(await executor.execute(attemptOf({ limits: { memory_mib: 512 } }))).toMatchObject({
      ending: 'provisioning',
      reason: 'memory_budget_exceeded',
    })
  })
})

describe('artifacts', () => {
  const matching = async (
    files: { path: string; size: number }[],
    limits: Parameters<typeof attemptOf>[0] = {},
    script: Script = {},
  ) => {
    const { outcome, ...rest } = await executed(
      undefined,
      { artifacts: ['**'], ...limits },
      {
        list: async () => files,
        read: async (path) => new Uint8Array(files.find((file) => file.path === path)?.size ?? 0),
        ...script,
      },
    )
    const { artifacts, artifactsOmitted = [], artifactsIncomplete } = outcome
    return {
      kept: artifacts.map(({ path }) => path),
      omitted: Object.fromEntries(artifactsOmitted.map(({ path, reason }) => [path, reason])),
      incomplete: artifactsIncomplete === true,
      outcome,
      ...rest,
    }
  }
  const named = (count: number) => Array.from({ length: count }, (_, n) => ({ path: `f${n}`, size: 1 }))

  it('name each file that was left out, with its size and the reason', async () => {
    const size = 9 * MiB
    const { kept, omitted, incomplete, outcome, attempt } = await matching([
      { path: 'good', size: 3 },
      { path: 'back\\slash', size: 1 },
      { path: '../../etc/passwd', size: 1 },
      { path: 'not-\ufffd-utf8', size: 1 },
      { path: 'x'.repeat(600), size: 1 },
      { path: 'huge', size },
    ])
    expect(kept).toEqual(['good', 'back\\slash'])
    expect(omitted).toEqual({
      '../../etc/passwd': 'unsafe_name',
      'not-\ufffd-utf8': 'unsafe_name',
      ['x'.repeat(512)]: 'unsafe_name',
      huge: 'too_large',
    })
    expect(outcome.artifactsOmitted).toContainEqual({ path: 'huge', size, reason: 'too_large' })
    expect(incomplete).toBe(false)
    expect(attempt.notices).toHaveLength(4)
  })

  it('are not bounded by the size that the sandbox lists', async () => {
    const { kept, omitted } = await matching(
      [
        { path: 'huge', size: 1 },
        { path: 'gone', size: 1 },
      ],
      {},
      {
        read: async (path, most) => {
          if (path === 'gone') throw new CofferdamError('not_found')
          return new Uint8Array(most + 1)
        },
      },
    )
    expect([kept, omitted]).toEqual([[], { huge: 'too_large', gone: 'unreadable' }])
  })

  it('have names without secrets, and distinct names if they differ only in a secret', async () => {
    const [token, password] = ['correct-horse-battery', 'staple-of-the-wrong-donkey']
    const { outcome, attempt, blobs } = await executed(
      undefined,
      { artifacts: ['**'], env: { API_TOKEN: token, DB_PASSWORD: password } },
      {
        list: async () =>
          [`${token}.txt`, `${password}.txt`, `big-${token}`].map((path) => ({ path, size: 1 })),
        read: async (path, most) => new Uint8Array(path.startsWith('big') ? most + 1 : 3),
      },
    )
    expect(outcome.artifacts.map(({ path }) => path)).toEqual(['<redacted>.txt', '<redacted>.txt~2'])
    expect(outcome.redactionCount).toBe(3)
    expect(attempt.notices).toEqual([
      expect.stringContaining('Artifact big-<redacted> was left out: too_large'),
    ])
    expect(JSON.stringify([outcome, [...blobs.committed.keys()]])).not.toMatch(/horse|donkey/)
  })

  it('leave out a file that passes the total, and continue with those that fit', async () => {
    const { kept, omitted } = await matching([
      { path: 'a', size: 8 * MiB },
      { path: 'b', size: 7 * MiB },
      { path: 'c', size: 2 * MiB },
      { path: 'd', size: MiB },
    ])
    expect([kept, omitted]).toEqual([['a', 'b', 'd'], { c: 'total_too_large' }])
  })

  it('are as many as the request asks for, and the others are named', async () => {
    const { kept, omitted, incomplete } = await matching(named(5), { limits: { artifact_count: 3 } })
    expect([kept, omitted]).toEqual([['f0', 'f1', 'f2'], { f3: 'too_many', f4: 'too_many' }])
    expect(incomplete).toBe(false)
  })

  it('are marked as incomplete if there are more than can be named', async () => {
    const { kept, outcome, incomplete } = await matching(named(1000))
    expect([kept.length, outcome.artifactsOmitted?.length, incomplete]).toEqual([256, 100, true])
  })

  it('may be larger if the limits of the request allow it', async () => {
    const { kept } = await matching([{ path: 'large', size: 9 * MiB }], {
      limits: { artifact_bytes: 9 * MiB },
    })
    expect(kept).toEqual(['large'])
  })

  it('do not include the program itself', async () => {
    const source = 'print(1)'
    const files = [...named(3), { path: 'main.py', size: source.length }]
    const { kept, omitted } = await matching(
      files,
      { limits: { artifact_count: 3 } },
      {
        read: async (path) => Buffer.from(path === 'main.py' ? source : 'x'),
      },
    )
    expect([kept.length, omitted]).toEqual([3, {}])
  })

  it('may be incomplete if the search ended early, and say so', async () => {
    const { kept, incomplete } = await matching(
      [],
      {},
      {
        list: async () => Object.assign(named(1), { partial: true }),
        read: async () => new Uint8Array(1),
      },
    )
    expect([kept, incomplete]).toEqual([['f0'], true])
  })

  it('name a file that could not be stored', async () => {
    const backend = scriptedBackend({ files: { a: 'x' } })
    const { executor } = harness([backend], { blobs: createMemoryBlobs('commit') })
    const outcome = await executor.execute(attemptOf({ artifacts: ['**'] }))
    expect(outcome).toMatchObject({
      ending: 'ok',
      artifacts: [],
      artifactsOmitted: [{ path: 'a', size: 1, reason: 'not_stored' }],
    })
  })

  it('are given up at the hard deadline, even if the program ended long before', async () => {
    const clock = createManualClock()
    const listing = Promise.withResolvers<void>()
    const backend = scriptedBackend({ list: () => (listing.resolve(), never()) })
    const { executor } = harness([backend], { clock })
    const limits = { soft_timeout_ms: 5000, hard_timeout_ms: 7000 }
    const attempt = attemptOf({ artifacts: ['**'], limits })
    const outcome = executor.execute(attempt)
    await listing.promise
    await clock.advance(6999)
    expect(attempt.notices).toEqual([])
    await clock.advance(1)
    expect(await outcome).toMatchObject({ ending: 'ok', artifacts: [], artifactsIncomplete: true })
  })

  it('have five more seconds if the program ended at its deadline', async () => {
    const clock = createManualClock()
    const listing = Promise.withResolvers<void>()
    const backend = scriptedBackend({ list: () => (listing.resolve(), never()) })
    const { executor } = harness([backend], { clock })
    const attempt = attemptOf({ artifacts: ['**'], limits: { soft_timeout_ms: 50, hard_timeout_ms: 100 } })
    const outcome = executor.execute(attempt)
    await listing.promise
    await clock.advance(4999)
    expect(attempt.notices).toEqual([])
    await clock.advance(1)
    expect(await outcome).toMatchObject({ ending: 'ok', artifactsIncomplete: true })
  })

  it('count the CPU time of the collection, which is read only if files were collected', async () => {
    const used = async (artifacts: string[]) => {
      const backend = scriptedBackend({ usage: { ...exitOf().usage, cpu_ms: 250 } })
      return (await harness([backend]).executor.execute(attemptOf({ artifacts }))).usage?.cpu_ms
    }
    expect([await used(['**']), await used([])]).toEqual([250, 3])
  })
})

it('every outcome names the variables that the program did not get', async () => {
  const env = { LD_PRELOAD: 'x', MINE: 'y', NODE_OPTIONS: 'z' }
  const { outcome, backend } = await executed(undefined, { env })
  expect(outcome.envDropped).toEqual(['LD_PRELOAD', 'NODE_OPTIONS'])
  expect(Object.keys(backend.specs[0]?.env ?? {})).not.toContain('LD_PRELOAD')
  expect((await executed(undefined, { env: { MINE: 'y' } })).outcome).not.toHaveProperty('envDropped')
})

it('probeAll reports what each backend says about this host', async () => {
  const { executor } = harness([
    scriptedBackend({ name: 'a' }),
    scriptedBackend({ name: 'b', isolation: 'jail', probe: () => Promise.reject(new Error('broke')) }),
  ])
  expect(await executor.probeAll(new AbortController().signal)).toMatchObject([
    { name: 'a', isolation: 'container', probe: { ok: true }, capabilities: { stdin: true } },
    { name: 'b', isolation: 'jail', probe: { ok: false, why: expect.stringContaining('broke') } },
  ])
})

it('a program waits while its live output does', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const steps: string[] = []
  const run = async ({ out }: { out: (text: string) => Promise<void> }) => {
    await out('line\n'.repeat(1000))
    steps.push('program goes on')
    return exitOf()
  }
  const { executor } = harness([scriptedBackend({ run })])
  const onOutput = (): Promise<void> => {
    setImmediate(() => {
      steps.push('output is taken')
      resolve()
    })
    return promise
  }
  expect((await executor.execute(attemptOf({}, { onOutput }))).ending).toBe('ok')
  expect(steps.slice(0, 2)).toEqual(['output is taken', 'program goes on'])
})

it('an attempt ends normally although its listeners throw', async () => {
  const { executor, errors } = harness([
    scriptedBackend({ run: async ({ out }) => (await out('x'), exitOf()) }),
  ])
  const attempt = attemptOf(
    { env: { IFS: 'x' } },
    {
      onOutput: () => {
        throw new Error('listener')
      },
      onNotice: () => {
        throw new Error('listener')
      },
    },
  )
  expect((await executor.execute(attempt)).ending).toBe('ok')
  expect(errors).toEqual(['a listener threw', 'a listener threw'])
})
