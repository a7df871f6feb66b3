import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { gate, recordOf, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
// A consumer of an earlier test would take what the next test puts.
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

/** Watches for `ms`. Returns false if this process or Redis stood still for longer than `stillMs`. */
async function isAwakeFor(ms: number, stillMs: number): Promise<boolean> {
  const startedMs = performance.now()
  for (let lastMs = startedMs; lastMs - startedMs < ms;) {
    await bench.redis.ping()
    await pause(20)
    const nowMs = performance.now()
    if (nowMs - lastMs > stillMs) return false
    lastMs = nowMs
  }
  return true
}

describe('routines that take their time', () => {
  it('use only their share of the slots, and interactive work passes them', async () => {
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

  it('keep a lock for many times its length while two workers look for lost executions', async () => {
    let held = gate()
    const takes: string[] = []
    let wasAborted = false
    const producer = bench.producer()
    const options = {
      lockMs: 2000,
      sweepMs: 50,
      process: async (
        taken: Parameters<NonNullable<Parameters<Bench['consumer']>[0]>['process'] & object>[0],
      ) => {
        takes.push(`${taken.executionId} ${taken.fence}`)
        await taken.begin(sandboxRef(), SANDBOX_INFO)
        await held.opened
        wasAborted = taken.signal.aborted
        await taken.settle(recordOf(taken), { slotMs: 1 })
      },
    }
    bench.consumer(options)
    bench.consumer(options)
    for (let isJudged = false; !isJudged; held = gate()) {
      takes.length = 0
      const { execution_id: id } = await producer.put(requestOf({ lane: 'routine' }))
      await expect.poll(() => takes.length, { timeout: 20_000 }).toBeGreaterThan(0)
      // Watch for four lock times, in which each worker renews or looks twelve times. A machine that stands
      // still for two thirds of a lock time rightly loses the lock, and the test tries again.
      isJudged = await isAwakeFor(8000, 1000)
      const seen = [...takes]
      held.open()
      const result = await producer.wait(id, { timeoutMs: 30_000 })
      if (!isJudged) continue
      expect(seen).toEqual([`${id} 1`])
      expect(wasAborted).toBe(false)
      expect(result).toMatchObject({ ok: true, attempt: 1 })
      expect(takes).toHaveLength(1)
    }
  })
})
