/**
 * No-op executions per second end to end (client → queue → admission → `fake` → audit row → result),
 * alternating with a bare BullMQ queue on the same Redis whose worker only completes jobs.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { DEFAULT_LIMITS } from '@cofferdam/contract'
import { Queue, QueueEvents } from 'bullmq'
import { Redis } from 'ioredis'
import { execute } from './measure-latency.ts'
import { closedLoop, interleave, perSecond } from './rounds.ts'
import type { BenchContext, Measured } from './report.ts'
import { cpuMsOf, cpuMsOfFamily } from './process-cpu.ts'
import { pairedRatio, round, quantile, summarise } from './statistics.ts'

const CONCURRENCY = 100
/** Executions in a row per sample, so that it measures the path and not how a machine wakes up. */
const BACK_TO_BACK = 10

export async function measureNoop(context: BenchContext): Promise<Record<string, Measured>> {
  const rounds = context.quick ? 5 : 7
  const roundMs = context.quick ? 400 : 6000
  const ours: number[] = []
  const bare: number[] = []
  let overhead: number[] = []
  let bareOverhead: number[] = []
  const cpuUs: Record<string, number[]> = {}
  const worker = await context.fleet.startWorker({
    COFFERDAM_BACKENDS: 'fake',
    COFFERDAM_SLOTS: String(CONCURRENCY),
    // Executions on `fake` also take their memory limit from the worker's budget. The default budget, half of
    // the host's memory, may be too small for all slots.
    COFFERDAM_MEMORY_BUDGET_MIB: String(CONCURRENCY * DEFAULT_LIMITS.memory_mib),
  })
  try {
    await using peer = await startBareBullmq(context.fleet.redisUrl)
    // Spread over agents as in a real fleet, so that there is no hot key.
    let turn = 0
    const noop = () => execute(context, 'fake', `agent-${turn++ % 50}`)
    const cpu = cpuReader(context, worker.process.pid ?? 0)
    await closedLoop(noop, CONCURRENCY, 1000)
    const alone = await interleave(
      [
        { name: 'cofferdam', run: () => repeat(noop, BACK_TO_BACK) },
        { name: 'bare_bullmq', run: () => repeat(() => peer.run(), BACK_TO_BACK) },
      ],
      context.quick ? 15 : 60,
    )
    overhead = (alone.get('cofferdam') ?? []).map((ms) => ms / BACK_TO_BACK)
    bareOverhead = (alone.get('bare_bullmq') ?? []).map((ms) => ms / BACK_TO_BACK)
    for (let i = 0; i < rounds; i++) {
      bare.push(await closedLoop(() => peer.run(), CONCURRENCY, roundMs))
      const [before, from] = [cpu(), turn]
      ours.push(await closedLoop(noop, CONCURRENCY, roundMs))
      for (const [name, ms] of Object.entries(cpu()))
        (cpuUs[name] ??= []).push(((ms - (before[name] ?? 0)) * 1000) / (turn - from))
    }
  } finally {
    await worker.stop()
  }
  return {
    'overhead.cofferdam': { unit: 'ms', summary: summarise(overhead) },
    'overhead.bare_bullmq': { unit: 'ms', summary: summarise(bareOverhead) },
    'overhead.vs_bare_bullmq': { unit: 'ratio', ratio: pairedRatio(overhead, bareOverhead) },
    'noop.cofferdam': perSecond(ours),
    'noop.bare_bullmq': perSecond(bare),
    'noop.vs_bare_bullmq': { unit: 'ratio', ratio: pairedRatio(ours, bare) },
    ...Object.fromEntries(
      Object.entries(cpuUs).map(([name, us]): [string, Measured] => [
        `noop.cpu.${name}`,
        { unit: 'us', value: round(quantile(us, 0.5)), summary: summarise(us) },
      ]),
    ),
  }
}

/** Returns a function that reads the CPU milliseconds of each process so far. */
function cpuReader({ fleet }: BenchContext, worker: number): () => Record<string, number> {
  const { redis, postgres } = fleet.pids()
  return () => ({
    ...(redis === null ? {} : { redis: cpuMsOf(redis) }),
    postgres: cpuMsOfFamily(postgres),
    worker: cpuMsOf(worker),
    client: cpuMsOf(process.pid),
  })
}

async function repeat(run: () => Promise<unknown>, times: number): Promise<void> {
  for (let i = 0; i < times; i++) await run()
}

/** A BullMQ queue with a worker in a child process. The client waits with QueueEvents (BullMQ's guide). */
async function startBareBullmq(redisUrl: string) {
  const child = fork(fileURLToPath(new URL('./bare-bullmq-worker.ts', import.meta.url)), [
    redisUrl,
    String(CONCURRENCY),
  ])
  await once(child, 'message')
  const path = redisUrl.replace(/^unix:\/\//, '')
  const connection = new Redis({ path, maxRetriesPerRequest: null })
  const eventsConnection = new Redis({ path, maxRetriesPerRequest: null })
  const queue = new Queue('bare', { connection })
  const events = new QueueEvents('bare', { connection: eventsConnection })
  events.setMaxListeners(0)
  queue.setMaxListeners(0)
  await events.waitUntilReady()
  return {
    async run(): Promise<void> {
      const job = await queue.add(
        'noop',
        { payload: 'x'.repeat(200) },
        { removeOnComplete: { age: 60, count: 1000 } },
      )
      await job.waitUntilFinished(events)
    },
    async [Symbol.asyncDispose]() {
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      await exited
      await events.close()
      await queue.close()
      connection.disconnect()
      eventsConnection.disconnect()
    },
  }
}
