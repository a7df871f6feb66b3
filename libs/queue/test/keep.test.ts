/**
 * What the owner of an execution keeps for the next owner. Keeping is refused once another worker owns the
 * execution.
 */
import { newExecutionId } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import type { Taken } from '../src/index.ts'
import { KEYS } from '../src/testing.ts'
import { endWith, gate, requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

const MINUTE_MS = 60_000

/** Runs `use` while a worker owns an execution, and then ends it. */
async function whileOwned(use: (taken: Taken) => Promise<void>): Promise<Taken> {
  const ended = gate()
  let owned: Taken | undefined
  let failure: unknown
  const producer = bench.producer()
  bench.consumer({
    slots: 1,
    async process(taken) {
      owned = taken
      await use(taken).catch((error: unknown) => (failure = error))
      await endWith('ok')(taken)
      ended.open()
    },
  })
  await producer.put(requestOf())
  await ended.opened
  if (failure !== undefined) throw failure
  return owned!
}

it('keeps the newest ref for a while and returns the one that it replaced, but never its own', async () => {
  const taken = await whileOwned(async (one) => {
    const id = one.executionId
    expect(await one.keep('checkpoint', id, 'ref-1', MINUTE_MS)).toBeNull()
    expect(await one.keep('checkpoint', id, 'ref-2', MINUTE_MS)).toBe('ref-1')
    // The client repeats a call whose answer was lost.
    expect(await one.keep('checkpoint', id, 'ref-2', MINUTE_MS)).toBeNull()
    expect(await bench.redis.get(KEYS.checkpoint + id)).toBe('ref-2')
    expect(await bench.redis.pttl(KEYS.checkpoint + id)).toBeGreaterThan(MINUTE_MS / 2)
    expect(await one.keep('workspace', 'acme:s:w', 'old', MINUTE_MS)).toBeNull()
    expect(await one.keep('workspace', 'acme:s:w', 'new', MINUTE_MS)).toBeNull()
    expect(await bench.redis.get(`${KEYS.workspace}acme:s:w`)).toBe('new')
  })
  await expect(taken.keep('checkpoint', newExecutionId(), 'late', MINUTE_MS)).rejects.toMatchObject({
    code: 'fenced',
  })
})

it.each(['checkpoint', 'workspace'] as const)(
  'refuses the %s of a worker that lost the execution and does not know it yet',
  async (what) => {
    await whileOwned(async (one) => {
      const key = KEYS[what] + one.executionId
      const record = KEYS.record + one.executionId
      await bench.redis.set(key, 'of the new owner')
      const late = () => one.keep(what, one.executionId, 'late', MINUTE_MS)
      // As if another worker had taken the execution.
      await bench.redis.hset(record, 'f', one.fence + 1)
      await expect(late()).rejects.toMatchObject({ code: 'fenced' })
      // As if the execution waited for its next attempt.
      await bench.redis.hset(record, 'f', one.fence, 's', 'queued')
      await expect(late()).rejects.toMatchObject({ code: 'fenced' })
      expect(await bench.redis.get(key)).toBe('of the new owner')
      await bench.redis.hset(record, 's', 'running')
      await late()
      expect(await bench.redis.get(key)).toBe('late')
    })
  },
)
