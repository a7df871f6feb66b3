import type { ExecutionId } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Producer, TenantCancel } from '../src/index.ts'
import { endWith, gate, requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

/** Calls `cancelTenant` until no page is left, and adds up the pages. */
async function cancelAll(producer: Producer, tenant: string, asked: Omit<TenantCancel, 'reason' | 'before'>) {
  const total = { cancelled: 0, cancelling: 0, pages: 0 }
  let next: string | null | undefined
  do {
    const page = await producer.cancelTenant(tenant, {
      ...asked,
      reason: 'switched off',
      ...(typeof next === 'string' ? { before: next } : {}),
    })
    total.cancelled += page.cancelled
    total.cancelling += page.cancelling
    total.pages += 1
    next = page.next
  } while (next !== null)
  return total
}

const putMany = async (producer: Producer, count: number, change: object = {}): Promise<ExecutionId[]> =>
  Promise.all(Array.from({ length: count }, async () => (await producer.put(requestOf(change))).execution_id))

describe('cancelling the executions that a tenant has in the queue', () => {
  it('ends 3,000 waiting executions page by page, and none of another tenant', async () => {
    const producer = bench.producer()
    await producer.setTenantLimits('acme', { weight: 1, concurrency: null, max_queued: 20_000 })
    for (let i = 0; i < 6; i += 1) await putMany(producer, 500)
    const [other] = await putMany(producer, 1, { tenant_id: 'other' })
    const startedMs = performance.now()
    const total = await cancelAll(producer, 'acme', { state: 'waiting' })
    expect(total).toEqual({ cancelled: 3_000, cancelling: 0, pages: 7 })
    expect(await producer.live('acme', 10)).toEqual([])
    expect(await bench.redis.xlen('{cofferdam}:outbox')).toBe(3_000)
    expect((await producer.get(other!))?.status).not.toBe('ended')
    expect((await producer.stats()).lanes.interactive.queued).toBe(1)
    // A quiet machine needs about one second. A shared one needs several times that.
    expect(performance.now() - startedMs).toBeLessThan(60_000)
  })

  it('cancels only waiting executions or only running ones, as the caller asks', async () => {
    const hold = gate()
    const aborted: string[] = []
    let carried = 0
    const producer = bench.producer()
    bench.consumer({
      slots: 2,
      process: async (taken) => {
        carried += 1
        await Promise.race([
          hold.opened,
          new Promise<void>((resolve) =>
            taken.signal.addEventListener('abort', () => resolve(), { once: true }),
          ),
        ])
        if (taken.signal.aborted) aborted.push(taken.executionId)
        await endWith('ok')(taken)
      },
    })
    const running = await putMany(producer, 2)
    // The queue's own count would not do: it also counts executions that are released but not taken yet.
    await expect.poll(() => carried, { timeout: 20_000 }).toBe(2)
    const waiting = await putMany(producer, 3)
    await putMany(producer, 1, { delay_ms: 60_000 })
    expect(await cancelAll(producer, 'acme', { state: 'running', agentId: 'nobody' })).toMatchObject({
      cancelled: 0,
      cancelling: 0,
    })
    expect(await cancelAll(producer, 'acme', { state: 'waiting' })).toMatchObject({
      cancelled: 4,
      cancelling: 0,
    })
    expect(aborted).toEqual([])
    expect((await producer.wait(waiting[0]!, { timeoutMs: 30_000 }))?.error_message).toBe('switched off')
    expect(await cancelAll(producer, 'acme', { state: 'running' })).toMatchObject({
      cancelled: 0,
      cancelling: 2,
    })
    await expect.poll(() => aborted.toSorted(), { timeout: 20_000 }).toEqual(running.toSorted())
    hold.open()
  })

  it('cancels only the executions of the agent that the caller names', async () => {
    const producer = bench.producer()
    await putMany(producer, 3, { agent_id: 'a' })
    await putMany(producer, 2, { agent_id: 'b' })
    expect(await cancelAll(producer, 'acme', { state: 'all', agentId: 'a' })).toMatchObject({ cancelled: 3 })
    expect((await producer.live('acme', 10)).map((one) => one.agent_id)).toEqual(['b', 'b'])
  })
})
