import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

const traceparent = (digit: string): string => `00-${digit.repeat(32)}-${digit.repeat(16)}-01`

describe('an idempotency key', () => {
  it('gives one execution for 32 concurrent puts from 4 producers', async () => {
    const producers = Array.from({ length: 4 }, () => bench.producer())
    const answers = await Promise.all(
      Array.from({ length: 32 }, (_, n) =>
        producers[n % 4]!.put(
          requestOf({ idempotency_key: 'k', traceparent: traceparent(String((n % 9) + 1)) }),
        ),
      ),
    )
    expect(new Set(answers.map(({ execution_id }) => execution_id)).size).toBe(1)
    expect(answers.filter(({ deduplicated }) => !deduplicated)).toHaveLength(1)
    expect(await producers[0]!.live('acme', 100)).toHaveLength(1)
    expect((await producers[0]!.stats()).lanes.interactive.queued).toBe(1)
  })

  it('with another body is a conflict that names the first execution, also under concurrency', async () => {
    const producer = bench.producer()
    const bodies = ['print(1)', 'print(2)'].map((source) =>
      requestOf({ idempotency_key: 'k', program: { type: 'script', language: 'python', source } }),
    )
    const answers = await Promise.allSettled(
      Array.from({ length: 32 }, (_, n) => producer.put(bodies[n % 2]!)),
    )
    const accepted = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
    const refused = answers.flatMap((answer) =>
      answer.status === 'rejected' ? [answer.reason as unknown] : [],
    )
    expect(accepted).toHaveLength(16)
    expect(refused).toHaveLength(16)
    const id = accepted[0]!.execution_id
    for (const reason of refused)
      expect(reason).toMatchObject({ code: 'idempotency_conflict', details: { execution_id: id } })
  })

  it('compares bodies independently of the order of their keys', async () => {
    const producer = bench.producer()
    const request = requestOf({ idempotency_key: 'k', env: { A: '1', B: '2' } })
    const first = await producer.put(request)
    const turned = Object.fromEntries(Object.entries({ ...request, env: { B: '2', A: '1' } }).reverse())
    const second = await producer.put(turned as typeof request)
    expect(second).toMatchObject({ execution_id: first.execution_id, deduplicated: true, status: 'queued' })
  })

  it('is separate for each tenant', async () => {
    const producer = bench.producer()
    const one = await producer.put(requestOf({ tenant_id: 'one', idempotency_key: 'k' }))
    const two = await producer.put(requestOf({ tenant_id: 'two', idempotency_key: 'k' }))
    expect(two.execution_id).not.toBe(one.execution_id)
    expect(two.deduplicated).toBe(false)
  })

  it('still returns an execution that ended, and waiting for it answers at once', async () => {
    const producer = bench.producer()
    bench.consumer()
    const first = await producer.put(requestOf({ idempotency_key: 'k' }), { awaitReply: true })
    await producer.wait(first.execution_id, { timeoutMs: 30_000 })
    const again = await producer.put(requestOf({ idempotency_key: 'k' }), { awaitReply: true })
    expect(again).toMatchObject({ execution_id: first.execution_id, deduplicated: true, status: 'ended' })
    expect(await producer.wait(again.execution_id, { timeoutMs: 0 })).toMatchObject({ ok: true })
  })

  it('lets a duplicate wait for the execution that the first put started', async () => {
    const [first, second] = [bench.producer(), bench.producer()]
    await first.put(requestOf({ idempotency_key: 'k' }))
    const duplicate = await second.put(requestOf({ idempotency_key: 'k' }), { awaitReply: true })
    const waiting = second.wait(duplicate.execution_id, { timeoutMs: 30_000 })
    bench.consumer()
    expect(await waiting).toMatchObject({ ok: true })
  })

  it('is not used up by a refused put', async () => {
    const producer = bench.producer()
    const limits = { weight: 1, concurrency: null }
    await producer.setTenantLimits('acme', { ...limits, max_queued: 0 })
    await expect(producer.put(requestOf({ idempotency_key: 'k' }))).rejects.toMatchObject({
      code: 'queue_full',
    })
    await producer.setTenantLimits('acme', { ...limits, max_queued: 1 })
    expect(await producer.put(requestOf({ idempotency_key: 'k' }))).toMatchObject({ deduplicated: false })
  })
})
