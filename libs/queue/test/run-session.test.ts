/**
 * Executions of a run that share a sandbox although they name no session: which do, in which order, on which
 * worker.
 */
import type { Accepted, ExecutionId, ExecutionRequest, WorkerId } from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { Producer, Taken } from '../src/index.ts'
import { KEYS } from '../src/testing.ts'
import { endWith, requestOf } from './fixtures.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
afterEach(() => bench.clear())
afterAll(() => bench[Symbol.asyncDispose]())

interface Ran {
  worker: string
  id: ExecutionId
  key: string | undefined
}

/** Starts consumers that note what they ran. */
function startConsumers(
  names: string[],
  ran: Ran[] = [],
  end: (taken: Taken) => Promise<void> = endWith('ok'),
) {
  const seen: ExecutionRequest[] = []
  for (const name of names)
    bench.consumer({
      workerId: `wrk_0123456789ab_${name}` as WorkerId,
      async process(taken) {
        seen.push(taken.request)
        ran.push({ worker: name, id: taken.executionId, key: taken.request.session?.key })
        await end(taken)
      },
    })
  return seen
}

const ended = async (producer: Producer, accepted: readonly Accepted[]) => {
  for (const { execution_id } of accepted)
    expect(await producer.wait(execution_id, { timeoutMs: 60_000 })).not.toBeNull()
}

describe('a tenant whose runs have sessions', () => {
  it('puts only an execution that names nothing but a run into the session of its run', async () => {
    const producer = bench.producer()
    await producer.setRunSessions('acme', true)
    const seen = startConsumers(['a'])
    const asked = [
      requestOf({ run_id: 'r' }),
      requestOf({ run_id: 'r', agent_id: 'other' }),
      requestOf({ run_id: 'r', session: { key: 'r' } }),
      requestOf({ run_id: 'r', session: { key: 'r', scope: 'interpreter' }, reuse: 'session' }),
      requestOf({ run_id: 'r', reuse: 'job' }),
      requestOf({ run_id: 'r', reuse: 'tenant' }),
      requestOf({}),
      requestOf({ run_id: 'r', tenant_id: 'globex' }),
    ]
    for (const request of asked) await ended(producer, [await producer.put(request)])
    const found = seen.map(({ session, reuse }) => [session?.key ?? null, session?.scope ?? null, reuse])
    expect(found).toEqual([
      ['run:agent-1:r', 'files', 'job'],
      ['run:other:r', 'files', 'job'],
      ['r', 'files', 'job'],
      ['r', 'interpreter', 'session'],
      [null, null, 'job'],
      [null, null, 'tenant'],
      [null, null, 'job'],
      [null, null, 'job'],
    ])
  })

  it('stops doing so when the setting is switched off', async () => {
    const producer = bench.producer()
    const seen = startConsumers(['a'])
    for (const shares of [true, false, true]) {
      await bench.producer().setRunSessions('acme', shares)
      await ended(producer, [await producer.put(requestOf({ run_id: 'r' }))])
      expect(seen.at(-1)?.session?.key).toBe(shares ? 'run:agent-1:r' : undefined)
    }
  })

  it('answers a repeated request with the first execution, also if the setting changed', async () => {
    const producer = bench.producer()
    const asked = requestOf({ run_id: 'r', idempotency_key: 'once' })
    const first = await producer.put(asked)
    await producer.setRunSessions('acme', true)
    const again = await producer.put(asked)
    expect(again).toMatchObject({ execution_id: first.execution_id, deduplicated: true })
    // Older versions stored the request with its reuse scope filled in.
    const older = await producer.put({ ...asked, reuse: 'job' })
    expect(older).toMatchObject({ execution_id: first.execution_id, deduplicated: true })
    await expect(producer.put({ ...asked, stdin: 'other' })).rejects.toMatchObject({
      code: 'idempotency_conflict',
    })
  })
})

describe('a fleet whose workers differ', () => {
  const COMMON = ['program=script', 'language=python', 'network=none']

  it.each([
    ['more memory than the worker of the session has', 'small', { limits: { memory_mib: 4096 } }],
    ['a backend that the worker of the session lacks', 'large', { backend: 'docker' }],
  ] as const)('after a call that needs %s, the next one goes to the %s worker', async (_what, heir, more) => {
    const producer = bench.producer()
    await producer.setRunSessions('acme', true)
    const ran: string[] = []
    const start = (name: string, ...words: string[]) =>
      bench.consumer({
        workerId: `wrk_0123456789ab_${name}` as WorkerId,
        offers: () => [new Set([...COMMON, 'session=files', ...words])],
        async process(taken) {
          ran.push(name)
          await endWith('ok')(taken)
        },
      })
    start('small', 'backend=process')
    await expect.poll(() => bench.redis.zcard(KEYS.kinds), { timeout: 20_000 }).toBe(1)
    await ended(producer, [await producer.put(requestOf({ run_id: 'r' }))])
    start(
      'large',
      'backend=docker',
      'memory=512',
      'memory=1024',
      'memory=2048',
      'memory=4096',
      'isolation=jail',
    )
    await expect.poll(() => bench.redis.zcard(KEYS.kinds), { timeout: 20_000 }).toBe(2)
    await ended(producer, [await producer.put(requestOf({ run_id: 'r', ...more }))])
    await ended(producer, [await producer.put(requestOf({ run_id: 'r' }))])
    expect(ran).toEqual(['small', 'large', heir])
  })
})

/** Pseudo-random numbers that are the same each time. */
function* numbers(seed: number): Generator<number, never> {
  let state = seed
  for (;;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    yield state >>> 8
  }
}

describe('any mixture of calls', () => {
  it.each([1, 2, 3])(
    'executes each run of each agent in order, one call at a time, on one worker (seed %i)',
    async (seed) => {
      const producer = bench.producer()
      await producer.setRunSessions('acme', true)
      const next = numbers(seed)
      const one = <T>(of: readonly T[]): T => of[next.next().value % of.length]!
      const ran: Ran[] = []
      const inside = new Map<string, number>()
      let overlaps = 0
      startConsumers(['a', 'b', 'c'], ran, async (taken) => {
        const key = taken.request.session?.key
        if (key !== undefined) {
          inside.set(key, (inside.get(key) ?? 0) + 1)
          if (inside.get(key)! > 1) overlaps += 1
        }
        await new Promise((resolve) => setImmediate(resolve))
        if (key !== undefined) inside.set(key, inside.get(key)! - 1)
        // An execution that a cap refuses also ends in its turn.
        await endWith(taken.request.user_id === 'capped' ? 'cap_exceeded' : 'ok')(taken)
      })
      const accepted: Accepted[] = []
      const expected = new Map<string, ExecutionId[]>()
      for (let n = 0; n < 60; n += 1) {
        const agent_id = one(['a1', 'a2'])
        const run_id = one(['r1', 'r2'])
        const own = one([{}, {}, {}, { session: { key: run_id } }, { reuse: 'job' as const }])
        const user_id = one(['capped', 'user', 'user'])
        const priority = next.next().value % 10
        const put = await producer.put(requestOf({ agent_id, run_id, user_id, priority, ...own }))
        accepted.push(put)
        const key = 'reuse' in own ? null : 'session' in own ? run_id : `run:${agent_id}:${run_id}`
        if (key !== null) expected.set(key, [...(expected.get(key) ?? []), put.execution_id])
      }
      await ended(producer, accepted)
      expect(overlaps).toBe(0)
      for (const [key, ids] of expected) {
        const inIt = ran.filter((one) => one.key === key)
        expect(inIt.map(({ id }) => id)).toEqual(ids)
        expect(new Set(inIt.map(({ worker }) => worker)).size).toBe(1)
      }
      expect(ran).toHaveLength(60)
    },
  )
})
