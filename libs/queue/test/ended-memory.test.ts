/** Measures how much memory of Redis an ended execution uses during the hour for which it stays readable. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { KEYS } from '../src/testing.ts'
import { endWith, requestOf, SANDBOX_INFO, sandboxRef } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterAll(() => bench[Symbol.asyncDispose]())

const PROGRAM = `# ${'x'.repeat(1022)}`
const request = () => requestOf({ program: { type: 'script', language: 'python', source: PROGRAM } })

/** Sum of the bytes of all keys of one execution. */
async function bytesOf(id: string): Promise<number> {
  let bytes = 0
  for (const key of [KEYS.record, KEYS.result, KEYS.events])
    bytes += Number((await bench.redis.memory('USAGE', key + id, 'SAMPLES', 0)) ?? 0)
  return bytes
}

describe('an ended execution with a program of 1 KB', () => {
  it('uses less than 3 KiB if it was cancelled while it waited', async () => {
    const producer = bench.producer()
    const { execution_id: id } = await producer.put(request())
    expect(await producer.cancel(id)).toBe('cancelled')
    expect(await bytesOf(id)).toBeLessThan(3072)
    expect((await producer.wait(id, { timeoutMs: 30_000 }))?.ending).toBe('cancelled')
    expect(await producer.cancel(id)).toBe('ended')
    expect(await producer.request(id)).toBeNull()
  })

  it('uses less than 4 KiB if it ran, and its events can still be read', async () => {
    const producer = bench.producer()
    bench.consumer({
      async process(taken) {
        await taken.begin(sandboxRef(), SANDBOX_INFO)
        taken.emit({ type: 'output', at_ms: 1, stream: 'stdout', text: 'x' })
        await endWith('ok')(taken)
      },
    })
    const { execution_id: id } = await producer.put(request(), { awaitReply: true })
    expect((await producer.wait(id, { timeoutMs: 30_000 }))?.ok).toBe(true)
    expect(await bytesOf(id)).toBeLessThan(4096)
    const seen: string[] = []
    for await (const { event } of producer.events(id, { signal: AbortSignal.timeout(30_000) }))
      seen.push(event.type)
    expect(seen).toEqual(['queued', 'started', 'output', 'ended'])
    expect(await bench.redis.pttl(KEYS.events + id)).toBeGreaterThan(3_000_000)
  })
})
