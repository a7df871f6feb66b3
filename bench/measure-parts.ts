/**
 * CPU time that an execution costs each part, from the HTTP client's request to its result, for each kind of
 * sandbox. The parts are the API, one Redis each for queue and caps, Postgres, the worker, and sandboxes that
 * are processes of the worker. docs/operations/sizing.md uses these figures.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createClient, type HttpClient } from '@cofferdam/client'
import { DEFAULT_LIMITS, type ExecutionRequestInput } from '@cofferdam/contract'
import { startRedis } from '@cofferdam/embedded'
import { benchRequest } from './measure-latency.ts'
import { cpuMsBelow, cpuMsOf, cpuMsOfFamily } from './process-cpu.ts'
import type { BenchContext, Measured } from './report.ts'
import { closedLoop } from './rounds.ts'
import { quantile, round, summarise } from './statistics.ts'
import { startWarmWorker } from './warm-worker.ts'

const API = fileURLToPath(new URL('../apps/api/src/main.ts', import.meta.url))

interface Kind {
  name: string
  backend: string
  /** Executions in flight. */
  inFlight: number
  /** Sandboxes wait in pools. Without it, each is opened cold. */
  pools?: boolean
  /** The sandboxes are processes of the worker, so their CPU time is known. */
  ownsSandboxes?: boolean
  more?: (lane: number) => Partial<ExecutionRequestInput>
}

const inSession = (lane: number): Partial<ExecutionRequestInput> => ({
  session: { key: `s${lane}`, scope: 'none' },
})

const KINDS: readonly Kind[] = [
  { name: 'queue', backend: 'fake', inFlight: 100 },
  { name: 'none', backend: 'none', inFlight: 4, ownsSandboxes: true },
  { name: 'process', backend: 'process', inFlight: 4, pools: true, ownsSandboxes: true },
  {
    name: 'process.cell',
    backend: 'process',
    inFlight: 4,
    pools: true,
    ownsSandboxes: true,
    more: inSession,
  },
  { name: 'docker', backend: 'docker', inFlight: 4, pools: true },
  { name: 'docker.cell', backend: 'docker', inFlight: 4, pools: true, more: inSession },
  { name: 'gvisor', backend: 'gvisor', inFlight: 2 },
]

export async function measureParts(context: BenchContext): Promise<Record<string, Measured>> {
  await using owned = new AsyncDisposableStack()
  const caps = await startRedis({ dataDir: path.join(context.fleet.dataDir, 'caps'), durable: true })
  owned.defer(() => caps.stop())
  const api = await startApi(context, caps.url)
  owned.defer(() => api.stop())
  const results: Record<string, Measured> = {}
  for (const kind of KINDS)
    try {
      Object.assign(results, await measureKind(context, kind, { caps, api }))
    } catch (error) {
      context.skip(`parts.${kind.name}`, error instanceof Error ? error.message : String(error))
    }
  return results
}

interface Around {
  caps: { pid: number; url: string }
  api: Api
}

async function measureKind(
  context: BenchContext,
  kind: Kind,
  { caps, api }: Around,
): Promise<Record<string, Measured>> {
  const worker = await startWarmWorker(context, {
    backends: [kind.backend],
    slots: kind.inFlight,
    warm: { pools: { enabled: kind.pools === true } },
    env: {
      COFFERDAM_ADMISSION_REDIS_URL: caps.url,
      // Executions on `fake` also take their memory limit from the worker's budget. The default budget, half
      // of the host's memory, may be too small for all slots.
      COFFERDAM_MEMORY_BUDGET_MIB: String(2 * kind.inFlight * DEFAULT_LIMITS.memory_mib),
    },
  })
  try {
    let turn = 0
    const once = async (lane: number): Promise<void> => {
      const request = { ...benchRequest(kind.backend, `agent-${(turn += 1) % 50}`), ...kind.more?.(lane) }
      const result = await api.client.run(request, { timeoutMs: 60_000 })
      if (!result.ok) throw new Error(`${result.ending}: ${result.error_message ?? result.stderr}`)
    }
    const read = partsReader(context, kind, worker.process.pid ?? 0, { caps, api })
    /**
     * Runs for a fixed time and a minimum number of executions. Then clock ticks of 10 ms and the loop's
     * start weigh little.
     */
    const slice = async (): Promise<void> => {
      const [sliceMs, least] = context.quick ? [300, 2 * kind.inFlight] : [4000, 10 * kind.inFlight]
      for (const from = turn; ;) {
        await closedLoop(once, kind.inFlight, sliceMs)
        if (turn - from >= least) return
      }
    }
    await slice()
    const us: Record<string, number[]> = {}
    for (let n = 0; n < (context.quick ? 3 : 6); n += 1) {
      const [before, from] = [read(), turn]
      await slice()
      for (const [part, ms] of Object.entries(read()))
        (us[part] ??= []).push(((ms - (before[part] ?? 0)) * 1000) / (turn - from))
    }
    return Object.fromEntries(
      Object.entries(us).map(([part, values]): [string, Measured] => [
        `parts.${kind.name}.cpu.${part}`,
        { unit: 'us', value: round(quantile(values, 0.5)), summary: summarise(values) },
      ]),
    )
  } finally {
    await worker.stop()
  }
}

/** Returns a function that reads the CPU milliseconds of each part so far. */
function partsReader(
  { fleet }: BenchContext,
  { ownsSandboxes = false }: Kind,
  worker: number,
  { caps, api }: Around,
): () => Record<string, number> {
  const { redis, postgres } = fleet.pids()
  return () => ({
    api: cpuMsOf(api.pid),
    ...(redis === null ? {} : { redis: cpuMsOf(redis) }),
    caps: cpuMsOf(caps.pid),
    postgres: cpuMsOfFamily(postgres),
    worker: cpuMsOf(worker),
    ...(ownsSandboxes ? { sandboxes: cpuMsBelow(worker) } : {}),
  })
}

interface Api {
  pid: number
  client: HttpClient
  stop(): Promise<void>
}

async function startApi({ fleet }: BenchContext, capsUrl: string): Promise<Api> {
  const { key } = await fleet.store.keys.create({ tenant_id: 'bench' }, 'bench')
  const { PATH = '', HOME = '' } = process.env
  const child = spawn(process.execPath, [API], {
    env: {
      PATH,
      HOME,
      REDIS_URL: fleet.redisUrl,
      COFFERDAM_ADMISSION_REDIS_URL: capsUrl,
      DATABASE_URL: fleet.databaseUrl,
      COFFERDAM_DATA_DIR: fleet.dataDir,
      COFFERDAM_PORT: '0',
      COFFERDAM_LOG_LEVEL: 'error',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const stop = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await exited
  }
  try {
    const client = createClient({ baseUrl: await urlOf(child), apiKey: key })
    return { pid: child.pid ?? 0, client, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** The API prints its URL as the last word of its first line. */
async function urlOf({ stdout }: ChildProcess): Promise<string> {
  if (stdout === null) throw new Error('unreachable: the output is piped')
  const lines = createInterface({ input: stdout })
  const [line] = (await Promise.race([
    once(lines, 'line'),
    once(lines, 'close').then(() => {
      throw new Error('the API ended before it listened')
    }),
  ])) as [string]
  return line.split(' ').at(-1) ?? ''
}
