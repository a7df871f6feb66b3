import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { gate, recordOf, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
// A consumer of the test before would take what the next one puts.
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

describe('routines that take their time', () => {
  it('hold their slots and no others: interactive work passes them all the while', async () => {
    const held = gate()
    let routines = 0
    let most = 0
    const producer = bench.producer()
    bench.consumer({
      slots: 6,
      routineSlots: 2,
      process: async (taken) => {
        if (taken.lane === 'routine') {
          routines += 1
          most = Math.max(most, routines)
          await taken.begin(sandboxRef(), SANDBOX_INFO)
          await held.opened
          routines -= 1
        }
        await taken.settle(recordOf(taken), { slotMs: 1 })
      },
    })
    const long = await Promise.all(
      Array.from({ length: 10 }, (_, n) => producer.put(requestOf({ lane: 'routine', agent_id: `a-${n}` }))),
    )
    await expect.poll(() => routines, { timeout: 20_000 }).toBe(2)
    for (let n = 0; n < 50; n += 1) {
      const { execution_id: id } = await producer.put(requestOf(), { awaitReply: true })
      expect(await producer.wait(id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
    }
    expect(most).toBe(2)
    held.open()
    for (const one of long)
      expect(await producer.wait(one.execution_id, { timeoutMs: 30_000 })).toMatchObject({ ok: true })
    expect(most).toBe(2)
  })

  it('keep their lock for many times its length, while two workers look for lost ones', async () => {
    const held = gate()
    const takes: string[] = []
    const producer = bench.producer()
    const options = {
      // Renewed by the third of it: a machine may stand still for the other two.
      lockMs: 2000,
      sweepMs: 50,
      process: async (
        taken: Parameters<NonNullable<Parameters<Bench['consumer']>[0]>['process'] & object>[0],
      ) => {
        takes.push(`${taken.executionId} ${taken.fence}`)
        await taken.begin(sandboxRef(), SANDBOX_INFO)
        await held.opened
        expect(taken.signal.aborted).toBe(false)
        await taken.settle(recordOf(taken), { slotMs: 1 })
      },
    }
    bench.consumer(options)
    bench.consumer(options)
    const { execution_id: id } = await producer.put(requestOf({ lane: 'routine' }))
    await expect.poll(() => takes.length, { timeout: 20_000 }).toBe(1)
    const startedMs = Date.now()
    // Four times the lock: each worker renews or looks twelve times.
    await expect.poll(() => Date.now() - startedMs > 8000, { timeout: 20_000 }).toBe(true)
    expect(takes).toHaveLength(1)
    expect(await producer.get(id)).toMatchObject({ status: 'running' })
    held.open()
    expect(await producer.wait(id, { timeoutMs: 30_000 })).toMatchObject({ ok: true, attempt: 1 })
    expect(takes).toHaveLength(1)
  })
})
