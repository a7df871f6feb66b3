/** The scaler without a cluster: what it reads, counts and reports. test/scaler.test.ts has the pools. */
import { expect, it } from 'vitest'
import type { ReadDepth } from './read-depth.ts'
import { createScaler, type ScalerOptions } from './scaler.ts'
import { spareSettingsSchema } from './spare-settings.ts'

const POOLS = ['first', 'second'].map((name) => ({
  name,
  settings: spareSettingsSchema.parse({ safety: 8, burst_margin: 0 }),
  warmPool: null,
}))

/** Environments and their pools. */
const OF = { env_a: 'first', env_b: 'first', env_c: 'second' }

type Options = Partial<ScalerOptions> & { readDepth?: ReadDepth; of?: Record<string, string> }

function scalerWith({ readDepth, of = OF, ...options }: Options = {}) {
  const time = { ms: 0 }
  const logged: string[] = []
  const log = (_: unknown, message: string): void => void logged.push(message)
  const scaler = createScaler({
    environments: Object.entries(of).map(([id, pool]) => ({ id, pool, readDepth: readDepth ?? null })),
    pools: POOLS,
    logger: { info: log, warn: log } as ScalerOptions['logger'],
    everyMs: null,
    now: () => time.ms,
    ...options,
  })
  return { scaler, time, logged }
}

it('adds up the environments of a pool, and keeps pools apart', async () => {
  const depths: Record<string, number> = { env_a: 4, env_b: 5, env_c: 0 }
  const { scaler } = scalerWith({ readDepth: async (id) => depths[id] ?? 0 })
  scaler.onArrival('env_a')
  scaler.onArrival('env_b')
  await scaler.step()
  expect(scaler.readings()).toEqual([
    // Two arrivals are worth 2 × 4.1 spare pods.
    { pool: 'first', spareTarget: 18, sessions: 2, depth: 9 },
    { pool: 'second', spareTarget: 2, sessions: 0, depth: 0 },
  ])
  scaler.onSessionEnd('env_a')
  expect(scaler.readings()[0]).toMatchObject({ sessions: 1 })
})

it('wants more spare sandboxes after slow cold starts', async () => {
  const wanted = async (coldMs: number): Promise<number> => {
    const { scaler, time } = scalerWith()
    for (let i = 0; i < 20; i += 1) scaler.onSandboxReady('env_a', coldMs)
    for (; time.ms < 600_000; time.ms += 20_000) scaler.onArrival('env_a')
    await scaler.step()
    return scaler.readings()[0]?.spareTarget ?? 0
  }
  expect(await wanted(60_000)).toBeGreaterThan(2 * (await wanted(10_000)))
})

it('knows without an API key only that the queue is empty after an empty poll', () => {
  const { scaler } = scalerWith()
  const depth = () => scaler.readings()[1]?.depth
  expect(depth()).toBe(null)
  scaler.onEmptyPoll('env_c')
  expect(depth()).toBe(0)
  scaler.onArrival('env_c')
  expect(depth()).toBe(null)
})

it('says once per outage that a depth cannot be read, and goes on with the arrivals', async () => {
  let answers = false
  const readDepth: ReadDepth = async () => {
    if (!answers) throw new Error('503')
    return 1
  }
  const { scaler, logged } = scalerWith({ of: { env_a: 'first' }, readDepth })
  scaler.onArrival('env_a')
  await scaler.step()
  await scaler.step()
  expect(logged).toEqual(['the depth of an environment could not be read'])
  expect(scaler.readings()[0]).toMatchObject({ spareTarget: 5, depth: null })
  answers = true
  await scaler.step()
  expect(scaler.readings()[0]).toMatchObject({ spareTarget: 6, depth: 1 })
  answers = false
  await scaler.step()
  expect(logged).toHaveLength(2)
})

it('joins a call during a step to that step', async () => {
  const gate = Promise.withResolvers<number>()
  let reads = 0
  const readDepth: ReadDepth = () => {
    reads += 1
    return gate.promise
  }
  const { scaler } = scalerWith({ of: { env_a: 'first' }, readDepth })
  const both = Promise.all([scaler.step(), scaler.step()])
  gate.resolve(0)
  await both
  expect(reads).toBe(1)
  await scaler.step()
  expect(reads).toBe(2)
})

it('steps by its own timer, and not after it is disposed of', async () => {
  const [second, stopped] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let reads = 0
  const readDepth: ReadDepth = (_, signal) => {
    reads += 1
    if (reads === 1) return Promise.resolve(0)
    second.resolve()
    signal.addEventListener('abort', () => stopped.resolve())
    return stopped.promise.then(() => 0)
  }
  const { scaler, logged } = scalerWith({ of: { env_a: 'first' }, readDepth, everyMs: 1 })
  await second.promise
  // Disposing aborts the read of the step that is in flight, and waits for that step.
  await scaler[Symbol.asyncDispose]()
  await scaler.step()
  expect([reads, logged]).toEqual([2, []])
})

it('refuses an environment whose pool does not exist, and one that it does not know', () => {
  expect(() => scalerWith({ of: { env_a: 'third' } })).toThrow('environment env_a: there is no pool "third"')
  expect(() => scalerWith().scaler.onArrival('env_z')).toThrow('unknown environment env_z')
})
