import { StopReason, type AttemptRecord, type ExecutionId } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { beat } from '../src/heartbeat.ts'
import { ANY_KIND } from '../src/worker-kind.ts'
import { endWith, gate, recordOf, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

/** Reports a worker with one slot that never takes anything, so that the scheduler releases executions. */
const openWindow = () =>
  beat(bench.redis, {
    workerId: 'wrk_idle',
    fillable: 1,
    slots: 1,
    interactive: 1,
    routine: 1,
    running: [],
    lockMs: 60_000,
    kind: ANY_KIND,
  })

const outboxRecords = async (): Promise<AttemptRecord[]> =>
  (await bench.redis.xrange('{cofferdam}:outbox', '-', '+')).map(
    ([, fields]) => JSON.parse(fields[1]!) as AttemptRecord,
  )

async function expectCancelled(id: ExecutionId): Promise<void> {
  const producer = bench.producer()
  expect(await producer.wait(id, { timeoutMs: 30_000 })).toMatchObject({
    ok: false,
    ending: 'cancelled',
    exit_status: 'cancelled',
    error: 'SandboxCancelled',
    error_message: 'not needed',
    attempt: 1,
  })
  const [record, ...others] = await outboxRecords()
  expect(others).toEqual([])
  expect(record?.audit).toMatchObject({
    execution_id: id,
    attempt: 1,
    exit_status: 'cancelled',
    quota_charged: false,
  })
  const { lanes } = await producer.stats()
  expect([lanes.interactive.queued, lanes.interactive.delayed, lanes.interactive.running]).toEqual([0, 0, 0])
  expect(await producer.live('acme', 10)).toEqual([])
  expect(await producer.cancel(id)).toBe('ended')
}

describe('cancelling', () => {
  it('ends a delayed execution at once', async () => {
    const { execution_id } = await bench.producer().put(requestOf({ delay_ms: 60_000 }))
    expect(await bench.producer().cancel(execution_id, 'not needed')).toBe('cancelled')
    await expectCancelled(execution_id)
  })

  it('ends a queued execution at once, and tells its waiters', async () => {
    const producer = bench.producer()
    const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
    const waiting = producer.wait(execution_id, { timeoutMs: 30_000 })
    expect(await bench.producer().cancel(execution_id, 'not needed')).toBe('cancelled')
    expect(await waiting).toMatchObject({ ending: 'cancelled' })
    await expectCancelled(execution_id)
  })

  it('ends a released execution at once, frees its slot, and no worker runs it', async () => {
    await openWindow()
    const producer = bench.producer()
    const { execution_id } = await producer.put(requestOf())
    expect((await producer.stats()).lanes.interactive.running).toBe(1)
    expect(await producer.cancel(execution_id, 'not needed')).toBe('cancelled')
    await expectCancelled(execution_id)
    const process = vi.fn(endWith('ok'))
    bench.consumer({ process })
    const next = await producer.put(requestOf(), { awaitReply: true })
    await producer.wait(next.execution_id, { timeoutMs: 30_000 })
    expect(process.mock.calls.map(([taken]) => taken.executionId)).toEqual([next.execution_id])
  })

  it('keeps a running execution from beginning its program', async () => {
    const producer = bench.producer()
    const taken = gate()
    const cancelled = gate()
    const begun = vi.fn()
    bench.consumer({
      async process(one) {
        taken.open()
        await cancelled.opened
        await one.begin(sandboxRef(), SANDBOX_INFO).then(begun, (error: unknown) => {
          expect(error).toBeInstanceOf(StopReason)
          expect(error).toMatchObject({ stopCause: 'cancelled' })
        })
        expect(one.signal.reason).toMatchObject({ stopCause: 'cancelled' })
        await one.settle(recordOf(one, 'cancelled'), { slotMs: 1 })
      },
    })
    const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
    await taken.opened
    expect(await producer.cancel(execution_id)).toBe('cancelling')
    cancelled.open()
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ending: 'cancelled' })
    expect(begun).not.toHaveBeenCalled()
  })

  it('aborts the signal of an execution that has begun', async () => {
    const producer = bench.producer()
    const begun = gate()
    bench.consumer({
      async process(one) {
        await one.begin(sandboxRef(), SANDBOX_INFO)
        begun.open()
        await new Promise((resolve) => one.signal.addEventListener('abort', resolve))
        expect(one.signal.reason).toMatchObject({ stopCause: 'cancelled' })
        await one.settle(recordOf(one, 'cancelled'), { slotMs: 1 })
      },
    })
    const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
    await begun.opened
    expect(await producer.cancel(execution_id)).toBe('cancelling')
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ending: 'cancelled' })
  })

  it("reaches a worker that missed the message, with the worker's next heartbeat", async () => {
    const producer = bench.producer()
    const begun = gate()
    bench.consumer({
      async process(one) {
        await one.begin(sandboxRef(), SANDBOX_INFO)
        begun.open()
        await new Promise((resolve) => one.signal.addEventListener('abort', resolve))
        await one.settle(recordOf(one, 'cancelled'), { slotMs: 1 })
      },
    })
    const { execution_id } = await producer.put(requestOf(), { awaitReply: true })
    await begun.opened
    await bench.redis.hset(`{cofferdam}:x:${execution_id}`, 'can', 'quietly')
    expect(await producer.wait(execution_id, { timeoutMs: 30_000 })).toMatchObject({ ending: 'cancelled' })
  })
})
