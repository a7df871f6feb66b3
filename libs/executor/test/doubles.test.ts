/** The executor over the two doubles of libs/backends: one that behaves well, one that does not. */
import { createMemoryBudget } from '../src/memory-budget.ts'
import {
  createFakeBackend,
  createHostileBackend,
  fakeSource,
  type FakeStep,
  type HostileTricks,
} from '@cofferdam/backends'
import { DEFAULT_LIMITS, type Backend, type Ending } from '@cofferdam/contract'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { attemptOf, harness, MiB } from './attempts.ts'

const opened: Backend[] = []
afterEach(async () => {
  for (const backend of opened.splice(0)) {
    await vi.waitFor(async () => expect(await backend.owners()).toEqual([]), 20_000)
    await backend[Symbol.asyncDispose]()
  }
})

async function executed(backend: Backend, steps: FakeStep[], request: Parameters<typeof attemptOf>[0] = {}) {
  opened.push(backend)
  const test = harness([backend], { timings: { disposeProofMs: 2000, cancelGraceMs: 50 } })
  const attempt = attemptOf({
    ...request,
    program: { type: 'script', language: 'python', source: fakeSource(...steps) },
  })
  const outcome = await test.executor.execute(attempt)
  expect(test.blobs.open).toBe(0)
  return { ...test, outcome, attempt }
}

describe('over the fake backend', () => {
  it.each<[Ending, FakeStep[]]>([
    ['ok', [{ print: 'hi' }]],
    ['error', [{ exit: 3 }]],
    ['crashed', [{ crash: 'SIGSEGV' }]],
    ['oom', [{ oom: true }]],
    ['oom', [{ throw: 'MemoryError' }]],
    ['pids_limit', [{ pids_limit: true }, { exit: 1 }]],
    ['disk_limit', [{ disk_limit: true }, { exit: 1 }]],
    ['sandbox_lost', [{ die: true }]],
    ['soft_timeout', [{ spin_until_interrupt: true }]],
    ['hard_timeout', [{ ignore_interrupts: true }, { sleep_ms: 60_000 }]],
  ])('ends %s for %j', async (ending, steps) => {
    const limits = ending.endsWith('timeout')
      ? { soft_timeout_ms: 20, hard_timeout_ms: ending === 'soft_timeout' ? 60_000 : 60 }
      : {}
    const { outcome, executor } = await executed(createFakeBackend(), steps, { limits })
    expect(outcome).toMatchObject({ ending, began: true })
    expect(executor.memory.usedBytes).toBe(0)
  })

  it('shows 256 KiB of a 1 GiB output and keeps 16 MiB', async () => {
    const { outcome, blobs } = await executed(createFakeBackend(), [
      { repeat: { text: 'x'.repeat(1024), times: MiB } },
    ])
    expect(outcome.stdout).toMatchObject({ bytes: 1024 * MiB, truncated: true })
    expect(outcome.stdout.text).toHaveLength(262_144)
    expect(blobs.committed.get(outcome.stdout.ref ?? '')).toHaveLength(16 * MiB)
  })

  it('runs many at once within the memory budget', async () => {
    const backend = createFakeBackend({ open_ms: 1 })
    opened.push(backend)
    const { executor } = harness([backend], { memory: createMemoryBudget(8 * 256 * MiB) })
    const program = { type: 'script', language: 'python', source: fakeSource({ print: 'hi' }) } as const
    const outcomes = await Promise.all(
      Array.from({ length: 200 }, () => executor.execute(attemptOf({ program }))),
    )
    expect(outcomes.every(({ ending, stdout }) => ending === 'ok' && stdout.text === 'hi\n')).toBe(true)
    expect(executor).toMatchObject({ running: 0, memory: { usedBytes: 0, waiting: 0 } })
  })
})

describe('over the hostile backend', () => {
  const hello: FakeStep[] = [{ print: 'hello ü€😀' }]
  it.each<[string, HostileTricks, Ending]>([
    ['fails to open', { open: 'fails' }, 'provisioning'],
    ['throws something foreign at open', { open: 'throws_foreign' }, 'provisioning'],
    ['is late in everything', { open_late_ms: 20, exit_late_ms: 20, dispose_slow_ms: 20 }, 'ok'],
    ['dies while it runs', { run: 'dies' }, 'sandbox_lost'],
    ['violates the protocol', { run: 'violates_protocol' }, 'sandbox_lost'],
    ['throws something foreign while it runs', { run: 'throws_foreign' }, 'sandbox_lost'],
    ['hangs and is deaf', { run: 'hangs', deaf_to_interrupt: true }, 'hard_timeout'],
    ['lies about bytes', { exit: 'lies_about_bytes' }, 'ok'],
    ['lies about its exit', { exit: 'lies_about_exit' }, 'crashed'],
    ['talks after its exit', { exit: 'talks_after_exit' }, 'ok'],
    ['sends single bytes', { crumbles_output: true }, 'ok'],
    ['throws at disposal', { dispose_throws: true }, 'ok'],
  ])('that %s: %j ends %s', async (_case, tricks, ending) => {
    const limits = tricks.run === 'hangs' ? { soft_timeout_ms: 20, hard_timeout_ms: 60 } : {}
    const { outcome, attempt, executor, leaked } = await executed(
      createHostileBackend({ tricks: [tricks] }),
      hello,
      { limits },
    )
    expect(outcome.ending).toBe(ending)
    if (ending === 'ok') {
      expect(outcome.stdout).toMatchObject({ text: 'hello ü€😀\n', bytes: 16 })
      expect(attempt.text.stdout).toBe('hello ü€😀\n')
    }
    expect(outcome.usage?.wall_ms ?? 0).toBeGreaterThanOrEqual(0)
    expect(outcome.serviceExecutionTime).toBeUndefined()
    expect(leaked).toHaveLength(tricks.dispose_throws === true ? 1 : 0)
    // A sandbox whose disposal threw may still run, so its memory is held for a minute (held-sandbox.ts).
    const heldBytes = tricks.dispose_throws === true ? DEFAULT_LIMITS.memory_mib * MiB : 0
    await vi.waitFor(() => expect(executor.memory.usedBytes).toBe(heldBytes), 20_000)
  })

  it('that writes without waiting is bounded', async () => {
    const { outcome, blobs } = await executed(
      createHostileBackend({ tricks: [{ flood_bytes: 256 * MiB }] }),
      hello,
    )
    expect(outcome.stdout).toMatchObject({ truncated: true })
    expect(outcome.stdout.bytes).toBeGreaterThanOrEqual(256 * MiB)
    expect(blobs.committed.get(outcome.stdout.ref ?? '')).toHaveLength(16 * MiB)
  })

  it.each<[string, HostileTricks]>([
    ['lies about files', { files_lie: true }],
    ['fails at files', { files: 'fails' }],
  ])('that %s loses the artifacts but not the result', async (_case, tricks) => {
    const { outcome } = await executed(
      createHostileBackend({ tricks: [tricks] }),
      [{ write_file: { path: 'a.txt', content: 'x' } }],
      {
        artifacts: ['*.txt'],
      },
    )
    expect(outcome).toMatchObject({ ending: 'ok', artifacts: [] })
  })

  it('that fails to open is replaced by the next backend', async () => {
    const hostile = createHostileBackend({ tricks: [{ open: 'fails' }] })
    const fake = createFakeBackend()
    opened.push(hostile, fake)
    const { executor } = harness([hostile, fake])
    expect(await executor.execute(attemptOf())).toMatchObject({ ending: 'ok', backend: 'fake' })
  })

  it('that hangs is cancelled within the grace period', async () => {
    const backend = createHostileBackend({ tricks: [{ run: 'hangs', deaf_to_interrupt: true }] })
    opened.push(backend)
    const { executor } = harness([backend], { timings: { cancelGraceMs: 20 } })
    const attempt = attemptOf()
    const onBegin = async () => void setImmediate(() => attempt.stop('cancelled'))
    expect(await executor.execute({ ...attempt, onBegin })).toMatchObject({
      ending: 'cancelled',
      began: true,
    })
  })
})
