/**
 * When several calls are gathered into one, each reads and writes less than a single call does
 * (lua/include/later.lua, slots.lua, enqueue.lua). Replies and stored state must be the same either way.
 */
import { afterAll, beforeEach, beforeAll, describe, expect, it } from 'vitest'
import { KEYS } from '../src/testing.ts'
import { runCoded, SCRIPTS, text, type Reply } from '../src/scripts.ts'
import { startBench, type Bench } from './support.ts'

let bench: Bench
beforeAll(async () => {
  bench = await startBench()
})
beforeEach(() => bench.redis.flushall())
afterAll(() => bench[Symbol.asyncDispose]())

type Call = () => Promise<{ code: string; rest: Reply[] }>
type Answer = Awaited<ReturnType<Call>>
/** The way in which the calls of a step are made. */
type Way = (calls: readonly Call[]) => Promise<Answer[]>

const oneByOne: Way = async (calls) => {
  const answers: Answer[] = []
  for (const call of calls) answers.push(await call())
  return answers
}
const together: Way = (calls) => Promise.all(calls.map((call) => call()))

/** Replaces times of the server's clock, also in the IDs of stream entries: they differ from run to run. */
const withoutMoments = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value).replaceAll(/\b1\d{12}(-\d+)?\b/g, '0'))

/** The content of all keys on the server. */
async function everything(): Promise<unknown> {
  const { redis } = bench
  const found: Record<string, unknown> = {}
  for (const key of (await redis.keys('*')).toSorted())
    switch (await redis.type(key)) {
      case 'hash':
        found[key] = Object.entries(await redis.hgetall(key)).toSorted(([a], [b]) => (a < b ? -1 : 1))
        break
      case 'zset': {
        const pairs = await redis.zrange(key, '0', '-1', 'WITHSCORES')
        // Redis orders members of equal score by their bytes, and these contain times.
        found[key] = pairs
          .flatMap((member, i) => (i % 2 === 0 ? [`${member} ${pairs[i + 1]}`] : []))
          .toSorted()
        break
      }
      case 'list':
        found[key] = await redis.lrange(key, 0, -1)
        break
      case 'set':
        found[key] = (await redis.smembers(key)).toSorted()
        break
      case 'stream':
        found[key] = await redis.xrange(key, '-', '+')
        break
      default:
        found[key] = await redis.get(key)
    }
  for (const key of Object.keys(found)) found[key] = [found[key], (await redis.pttl(key)) > 0]
  return withoutMoments(found)
}

const run =
  (script: keyof typeof SCRIPTS, key: string, args: (string | number)[]): Call =>
  () =>
    runCoded(bench.redis, SCRIPTS[script], key, args)

interface Asked {
  tenant?: string
  lane?: string
  delayMs?: number
  idempotency?: string
  session?: string
  channel?: string
}

let count = 0
function enqueue({
  tenant = 'acme',
  lane = 'interactive',
  delayMs = 0,
  idempotency = '',
  session = '',
  channel = 'me',
}: Asked): Call {
  const id = `exe_${String((count += 1)).padStart(4, '0')}`
  const key = idempotency === '' ? '' : `${tenant}:${idempotency}`
  return run('enqueue', KEYS.record + id, [
    id,
    tenant,
    `agent-${count % 3}`,
    lane,
    5,
    delayMs,
    '{}',
    '',
    key,
    'hash',
    channel,
    session,
    '',
    'life',
  ])
}

const next = (lane: string, job: string, at: number): Call =>
  run('next', KEYS.window, [lane, job, `token:${job === '' ? at : job}`, 1, 'wrk_1', 60_000, ''])

interface Held {
  id: string
  fence: number
}
const held = (answers: readonly Answer[]): Held[] =>
  answers
    .filter(({ code }) => code === 'taken')
    .map(({ rest }) => ({ id: text(rest.at(-1)).replace(/\..*/, ''), fence: Number(rest[0]) }))

const settle = ({ id, fence }: Held, slotMs: number): Call =>
  run('settle', KEYS.record + id, [id, fence, `{"id":"${id}"}`, '"attempt":1}', slotMs, ''])

/**
 * Plays some steps of the queue's life, and returns the answers and what is left. All calls of a step are
 * made in one turn of the event loop.
 */
async function live(way: Way, window: number, asked: readonly Asked[]): Promise<unknown[]> {
  count = 0
  await bench.redis.flushall()
  await bench.redis.hset(
    KEYS.window,
    'total',
    window,
    'interactive',
    window,
    'routine',
    Math.ceil(window / 2),
  )
  await bench.redis.hset(KEYS.limits, 'few', '1|2|4', 'heavy', '4||')
  const seen: unknown[] = []
  const step = async (calls: readonly Call[]): Promise<Answer[]> => {
    const answers = await way(calls)
    seen.push(withoutMoments(answers), await everything())
    return answers
  }
  await step(asked.map(enqueue))
  const first = held(await step(asked.map(({ lane = 'interactive' }, i) => next(lane, '', i))))
  await step(
    first.map(({ id, fence }) =>
      run('begin', KEYS.record + id, [id, fence, `{"fence":${fence}}`, '"attempt":1}', 1]),
    ),
  )
  // Some jobs lose their locks, and BullMQ puts them back. The next take of each fences off its first worker.
  const queue = `${KEYS.bull}interactive`
  for (const job of await bench.redis.lrange(`${queue}:active`, 0, 2)) {
    await bench.redis.del(`${queue}:${job}:lock`)
    await bench.redis.lrem(`${queue}:active`, 1, job)
    await bench.redis.rpush(`${queue}:wait`, job)
  }
  await step(Array.from({ length: 5 }, (_, i) => next('interactive', '', asked.length + i)))
  await step([...first, ...first.slice(0, 2)].map((one, i) => settle(one, 10 * i)))
  await step(asked.map(enqueue))
  return seen
}

const MIXED: Asked[] = Array.from({ length: 30 }, (_, i) => ({
  tenant: ['acme', 'few', 'heavy', 'acme'][i % 4] ?? '',
  ...(i % 7 === 6 ? { lane: 'routine' } : {}),
  ...(i % 11 === 10 ? { delayMs: 3_600_000 } : {}),
  ...(i % 9 === 8 ? { session: `s${i % 2}` } : {}),
  ...(i % 5 === 4 ? { idempotency: `key-${i % 2}` } : {}),
  ...(i % 6 === 5 ? { channel: '' } : {}),
}))

describe('gathered calls reply and leave the same as single calls', () => {
  it.each<[string, number, Asked[]]>([
    ['when all get a slot at once', 100, Array.from({ length: 20 }, (_, i) => ({ tenant: `t${i % 3}` }))],
    [
      'in both lanes',
      100,
      Array.from({ length: 20 }, (_, i) => ({ lane: i % 3 === 0 ? 'routine' : 'interactive' })),
    ],
    ['when some executions have to wait', 8, Array.from({ length: 20 }, (_, i) => ({ tenant: `t${i % 3}` }))],
    ['with tenants at their limits, delays, sessions and idempotency keys, in a wide window', 100, MIXED],
    ['the same in a narrow window', 7, MIXED],
    ['with no worker', 0, MIXED],
  ])('%s', async (_, window, asked) => {
    expect(await live(together, window, asked)).toEqual(await live(oneByOne, window, asked))
  })
})
