import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { ExecutionId, SandboxRef, WorkerId } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { LostExecution, Taken } from '../src/index.ts'
import { endWith, gate, recordOf, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
const children: ChildProcess[] = []
beforeAll(async () => {
  bench = await startBench()
})
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
  await bench.clear()
})
afterAll(() => bench[Symbol.asyncDispose]())

/** Lock time of the doomed worker. It is short, so that another worker soon finds it dead. */
const LOCK_MS = 1500
const DOOMED: WorkerId = 'wrk_0123456789ab_doomed'

/** Starts a process that takes the next execution, and kills it with SIGKILL. */
async function takeAndDie(
  how: 'taken' | 'begun' | 'handed over',
  put: () => Promise<unknown>,
): Promise<{ id: ExecutionId; ref: SandboxRef }> {
  const child = fork(new URL('./doomed-worker.ts', import.meta.url), [bench.url, DOOMED, how], {
    execArgv: [],
  })
  children.push(child)
  const message = once(child, 'message', { signal: AbortSignal.timeout(30_000) })
  await put()
  const [taken] = (await message) as [{ id: ExecutionId; ref: SandboxRef }]
  child.kill('SIGKILL')
  await once(child, 'exit')
  return taken
}

function observer(seen: Pick<Taken, 'attempt' | 'interrupted' | 'fence'>[]) {
  return async (taken: Taken): Promise<void> => {
    seen.push({ attempt: taken.attempt, interrupted: taken.interrupted, fence: taken.fence })
    await endWith(taken.interrupted === null ? 'ok' : 'worker_lost')(taken)
  }
}

describe('an execution whose worker was killed', () => {
  it('before it began runs again as the same attempt', async () => {
    const producer = bench.producer()
    const { id } = await takeAndDie('taken', () => producer.put(requestOf()))
    const seen: Parameters<typeof observer>[0] = []
    bench.consumer({ process: observer(seen), lockMs: LOCK_MS })
    expect(await producer.wait(id, { timeoutMs: 30_000 })).toMatchObject({ ok: true, attempt: 1 })
    expect(seen).toEqual([{ attempt: 1, interrupted: null, fence: 2 }])
  })

  it('after it began is taken again with the record of where it ran', async () => {
    const producer = bench.producer()
    const { id, ref } = await takeAndDie('begun', () => producer.put(requestOf()))
    const seen: Parameters<typeof observer>[0] = []
    bench.consumer({ process: observer(seen), lockMs: LOCK_MS })
    expect(await producer.wait(id, { timeoutMs: 30_000 })).toMatchObject({
      ending: 'worker_lost',
      attempt: 1,
    })
    expect(seen).toEqual([
      {
        attempt: 1,
        fence: 2,
        interrupted: {
          attempt: 1,
          worker: DOOMED,
          ref,
          ...SANDBOX_INFO,
          chargedAtMs: 7,
          startedAtMs: expect.any(Number),
          handedOver: false,
        },
      },
    ])
    await vi.waitFor(
      async () => expect((await producer.stats()).workers.map((w) => w.worker_id)).not.toContain(DOOMED),
      20_000,
    )
  })

  it('after its program was handed over is taken again with that fact in its record', async () => {
    const producer = bench.producer()
    const { id } = await takeAndDie('handed over', () => producer.put(requestOf()))
    const seen: Parameters<typeof observer>[0] = []
    bench.consumer({ process: observer(seen), lockMs: LOCK_MS })
    expect(await producer.wait(id, { timeoutMs: 30_000 })).toMatchObject({ ending: 'worker_lost' })
    expect(seen[0]?.interrupted).toMatchObject({ attempt: 1, handedOver: true })
  })

  it('is found by the sweep even if BullMQ lost its job', async () => {
    const producer = bench.producer()
    const { id, ref } = await takeAndDie('begun', () => producer.put(requestOf()))
    await bench.redis.del(...(await bench.redis.keys('{cofferdam}:interactive:*')))
    const seen: Parameters<typeof observer>[0] = []
    const onLost = vi.fn<(lost: LostExecution) => Promise<void>>(async () => undefined)
    bench.consumer({ process: observer(seen), onLost, lockMs: LOCK_MS })
    expect(await producer.wait(id, { timeoutMs: 30_000 })).toMatchObject({ ending: 'worker_lost' })
    expect(seen[0]?.interrupted?.ref).toEqual(ref)
    expect(onLost.mock.calls[0]?.[0]).toMatchObject({
      executionId: id,
      worker: DOOMED,
      ref,
      attempt: 1,
      fence: 1,
    })
  })
})

describe('a worker without a free slot', () => {
  it('still ends what a dead worker had begun, and leaves what had not begun for a free slot', async () => {
    const producer = bench.producer()
    const full = gate()
    const over = gate()
    let isFull = false
    bench.consumer({
      slots: 1,
      // This worker must survive, also on a busy host.
      lockMs: 4 * LOCK_MS,
      async process(held) {
        if (held.interrupted !== null) return endWith('worker_lost')(held)
        if (isFull) return endWith('ok')(held)
        isFull = true
        full.open()
        await over.opened
        await endWith('ok')(held)
      },
    })
    const long = await producer.put(requestOf(), { awaitReply: true })
    await full.opened
    const begun = await takeAndDie('begun', () => producer.put(requestOf()))
    expect(await producer.wait(begun.id, { timeoutMs: 30_000 })).toMatchObject({ ending: 'worker_lost' })
    // Start this one only after `begun` has ended. Otherwise the second doomed worker might take `begun`.
    const taken = await takeAndDie('taken', () => producer.put(requestOf()))
    await vi.waitFor(
      async () => expect(await producer.get(taken.id)).toMatchObject({ status: 'queued' }),
      20_000,
    )
    over.open()
    expect(await producer.wait(long.execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
    expect(await producer.wait(taken.id, { timeoutMs: 30_000 })).toMatchObject({ ok: true, attempt: 1 })
  })
})

describe('a lost job', () => {
  it('is added again by the sweep', async () => {
    const producer = bench.producer()
    const idle = bench.consumer({ slots: 1 })
    await vi.waitFor(async () => expect((await producer.stats()).workers).toHaveLength(1), 20_000)
    await idle.drain({ graceMs: 0 })
    // Pretend that workers have free slots, so that the put releases the execution while no worker takes it.
    await bench.redis.hset('{cofferdam}:window', 'total', 2, 'interactive', 2, 'routine', 1)
    const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
    const job = `{cofferdam}:interactive:${execution_id}`
    expect(await bench.redis.exists(job)).toBe(1)
    await bench.redis.del(job)
    await bench.redis.zrem('{cofferdam}:interactive:prioritized', execution_id)
    bench.consumer()
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
    expect((await producer.stats()).lanes.interactive.running).toBe(0)
  })
})

describe('a process function', () => {
  it('that leaves an execution without an ending gets it again, at most ten times', async () => {
    const producer = bench.producer()
    const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
    // Pretends that nine deliveries went wrong before. The next one fails too.
    await bench.redis.hset(`{cofferdam}:x:${execution_id}`, 'd', 9)
    const seen = vi.fn(() => Promise.reject(new Error('crashed')))
    const error = vi.fn()
    const silent = vi.fn()
    const onOutbox = vi.fn(async () => undefined)
    bench.consumer({ process: seen, onOutbox, logger: { info: silent, warn: silent, error } })
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({
      ending: 'worker_lost',
      reason: 'too_many_deliveries',
    })
    expect(seen).toHaveBeenCalledTimes(1)
    expect(error).toHaveBeenCalled()
    await vi.waitFor(() => expect(onOutbox).toHaveBeenCalledTimes(1), 20_000)
  })
})

describe('ownership', () => {
  it('moves with the fence: the old worker gets lock_lost and cannot write', async () => {
    const producer = bench.producer()
    const begun = gate()
    const outcome = vi.fn()
    bench.consumer({
      slots: 1,
      async process(taken) {
        if (taken.fence > 1) return endWith('worker_lost')(taken)
        await taken.begin(sandboxRef(), SANDBOX_INFO)
        begun.open()
        await new Promise((resolve) => taken.signal.addEventListener('abort', resolve))
        outcome(taken.signal.reason)
        await taken.settle(recordOf(taken, 'ok'), { slotMs: 1 }).catch(outcome)
      },
    })
    const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
    await begun.opened
    await bench.redis.hincrby(`{cofferdam}:x:${execution_id}`, 'f', 1)
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ending: 'worker_lost' })
    expect(outcome.mock.calls[0]?.[0]).toMatchObject({ stopCause: 'lock_lost' })
    expect(outcome.mock.calls[1]?.[0]).toMatchObject({ code: 'fenced' })
  })

  it('survives an expired BullMQ lock if no other worker took over', async () => {
    const producer = bench.producer()
    const begun = gate()
    const end = gate()
    const signals: unknown[] = []
    bench.consumer({
      async process(taken) {
        await taken.begin(sandboxRef(), SANDBOX_INFO)
        begun.open()
        await end.opened
        signals.push(taken.signal.aborted, taken.fence)
        await endWith('ok')(taken)
      },
    })
    const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
    await begun.opened
    const lock = `{cofferdam}:interactive:${execution_id}:lock`
    // Prevents a search for jobs without a lock, which would rightly take this job before the next renewal.
    await bench.redis.set('{cofferdam}:interactive:stalled-check', 1)
    await bench.redis.del(lock)
    await vi.waitFor(async () => expect(await bench.redis.exists(lock)).toBe(1), 20_000)
    end.open()
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
    expect(signals).toEqual([false, 1])
  })
})
