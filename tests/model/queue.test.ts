/** Random schedules of everything that may happen to a fleet, over the real scripts: docs/state-machines.md holds. */
import { isolatedRedis, type TestServer } from '@cofferdam/embedded/testing'
import { connectRedis, LANES, TAG, type Lane } from '@cofferdam/queue'
import { Worker } from 'bullmq'
import fc from 'fast-check'
import { afterAll, beforeAll, it } from 'vitest'
import { brokenInvariants, newMemory } from './invariants.ts'
import { comeToRest, unsettledAtRest } from './rest.ts'
import { snapshot } from './snapshot.ts'
import { scheduleArb, type Step } from './steps.ts'
import { admissionOf, World, type Transport } from './world.ts'

/** About 60 steps each. */
const RUNS = Number(process.env['COFFERDAM_MODEL_RUNS'] ?? 150)

let server: TestServer
let transport: Transport
beforeAll(async () => {
  server = await isolatedRedis()
  const redis = connectRedis(server.url, 'worker')
  const each = <T>(make: (lane: Lane) => T) =>
    Object.fromEntries(LANES.map((lane) => [lane, make(lane)])) as Record<Lane, T>
  transport = {
    redis,
    admission: admissionOf(redis, (tenant) => transport.charged(tenant)),
    charged: () => 0,
    workers: each(
      (lane) =>
        new Worker(lane, null, {
          connection: redis,
          prefix: TAG,
          autorun: false,
          skipVersionCheck: true,
          lockDuration: 3_600_000,
          maxStalledCount: 1_000_000,
          removeOnComplete: { count: 0 },
          removeOnFail: { count: 0 },
        }),
    ),
  }
})
afterAll(async () => {
  for (const lane of LANES) await transport.workers[lane].close(true)
  transport.redis.disconnect()
  await server.stop()
})

/** Throws with the step after which an invariant broke. */
async function play(steps: readonly Step[]): Promise<void> {
  const world = new World(transport)
  const memory = newMemory()
  await world.open()
  const check = async (after: string): Promise<void> => {
    const shot = await snapshot(transport.redis)
    const broken = [...world.problems, ...brokenInvariants(shot, memory)]
    world.story.push(after)
    if (broken.length > 0) throw new Error(`${broken.join('\n')}\n${world.story.join('\n')}`)
  }
  for (const [index, step] of steps.entries()) {
    await world.apply(step)
    await check(`${index + 1}. ${JSON.stringify(step)}`)
  }
  await comeToRest(world, check)
  const unsettled = await unsettledAtRest(world)
  if (unsettled.length > 0) throw new Error(`${unsettled.join('\n')}\n${world.story.join('\n')}`)
}

it('keeps every promise of the state machines under any schedule of work, deaths, delays and clocks', async () => {
  await fc.assert(fc.asyncProperty(scheduleArb, play), {
    numRuns: RUNS,
    // Shrinking ends with what it has by then.
    interruptAfterTimeLimit: 150_000,
    markInterruptAsFailure: false,
  })
}, 170_000)
