/** Builds of two versions share a queue: each record goes to a worker that reads it. */
import { newWorkerId } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import {
  announceVersion,
  connectRedis,
  createProducer,
  readBacklogVersions,
  readVersions,
  RECORD_VERSION,
  type Offer,
} from '../src/index.ts'
import { KEYS } from '../src/testing.ts'
import { endWith, requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

const NEWER = RECORD_VERSION + 1
const WORDS = ['program=script', 'language=python', 'network=none', 'backend=docker']
const TODAY: readonly Offer[] = [new Set(WORDS)]
const LATER: readonly Offer[] = [new Set([...WORDS, `records=${NEWER}`])]

/** A producer of the next version, whose records this version cannot read. */
function laterProducer() {
  const [redis, subscriber] = [connectRedis(bench.url, 'producer'), connectRedis(bench.url, 'subscriber')]
  const producer = createProducer({ redis, subscriber, recordVersion: NEWER })
  return {
    producer,
    async [Symbol.asyncDispose]() {
      await producer[Symbol.asyncDispose]()
      redis.disconnect()
      subscriber.disconnect()
    },
  }
}

it('gives records of a later version only to workers that read them', async () => {
  await using later = laterProducer()
  const ran: string[] = []
  const start = (name: string, offers: readonly Offer[]) =>
    bench.consumer({
      workerId: newWorkerId('0123456789ab'),
      offers: () => offers,
      async process(taken) {
        ran.push(`${name} ${taken.request.agent_id}`)
        await endWith('ok')(taken)
      },
    })
  start('today', TODAY)
  await vi.waitFor(async () => expect(await bench.redis.zcard(KEYS.kinds)).toBe(1), 20_000)
  // No worker can read this record. The execution ends with a message that says why, and what to do.
  const early = await later.producer.put(requestOf({ agent_id: 'early' }), { awaitReply: true })
  expect(await later.producer.wait(early.execution_id, { timeoutMs: 30_000 })).toMatchObject({
    ending: 'provisioning',
    reason: 'record_too_new',
    error_message: expect.stringMatching(
      new RegExp(
        `record has version ${NEWER}, and this process reads up to ${RECORD_VERSION}.*upgrade this process`,
      ),
    ),
  })
  expect(ran).toEqual([])

  bench.consumer({
    workerId: newWorkerId('0123456789ab'),
    offers: () => LATER,
    slots: 0,
  })
  await vi.waitFor(async () => expect(await bench.redis.zcard(KEYS.kinds)).toBe(2), 20_000)
  const waits = await later.producer.put(requestOf({ agent_id: 'new' }), { awaitReply: true })
  const old = await bench.producer().put(requestOf({ agent_id: 'old' }))
  await vi.waitFor(() => expect(ran).toEqual(['today old']), 20_000)
  expect(await bench.producer().get(old.execution_id)).toMatchObject({ status: 'ended' })
  expect(await readBacklogVersions(bench.redis)).toEqual({ executions: 1, byVersion: new Map([[NEWER, 1]]) })
  // An older process cannot read the newer record, but it can cancel the execution.
  await expect(bench.producer().request(waits.execution_id)).rejects.toMatchObject({ code: 'record_too_new' })
  await bench.producer().cancel(waits.execution_id)
  expect(await later.producer.wait(waits.execution_id, { timeoutMs: 30_000 })).toMatchObject({
    ending: 'cancelled',
  })
})

it('tells which version runs where, also of workers that do not say theirs', async () => {
  const onError = (error: unknown) => expect.fail(String(error))
  const about = { redis: bench.redis, version: '0.2.0', schema: 28, onError }
  const workerId = newWorkerId('0123456789ab')
  bench.consumer({ workerId })
  await vi.waitFor(async () => expect(await bench.redis.zcard(KEYS.beats)).toBe(1), 20_000)
  {
    await using api = announceVersion({ ...about, role: 'api', id: 'api_1' })
    await vi.waitFor(async () => expect(await readVersions(bench.redis)).toHaveLength(2), 20_000)
    expect(await readVersions(bench.redis)).toEqual([
      { role: 'api', id: 'api_1', version: '0.2.0', schema: 28, records: RECORD_VERSION },
      { role: 'worker', id: workerId, version: null, schema: null, records: 1 },
    ])
    expect(api).toBeDefined()
  }
  expect(await readVersions(bench.redis)).toHaveLength(1)
  // A killed process leaves its entry, which the next reader removes.
  await bench.redis.hset(
    KEYS.versions,
    'api_2',
    JSON.stringify({ at_ms: Date.now() - 61_000, role: 'api', version: '0.1.0', schema: 1, records: 1 }),
  )
  expect(await readVersions(bench.redis)).toHaveLength(1)
  expect(await bench.redis.hlen(KEYS.versions)).toBe(0)
})
