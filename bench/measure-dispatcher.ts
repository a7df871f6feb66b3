/**
 * The time of a no-op `bash` call of a Managed Agents session: from the agent's tool use to its result at the
 * control plane's double. Served by our dispatcher (queue, caps, a warm session on `process`, audit), paired
 * with the SDK's own worker, which runs the command on this host.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  startManagedAgents,
  type ManagedAgentsDouble,
} from '../infra/doubles/managed-agents/managed-agents-double.ts'
import { startDispatcher } from '../tests/dispatcher.ts'
import type { BenchContext, Measured } from './report.ts'
import { interleave } from './rounds.ts'
import { pairedRatio, quantile, round, summarise } from './statistics.ts'
import { startWarmWorker } from './warm-worker.ts'

const TENANT = 'bench'
/** The first call of a session waits for its sandbox or its shell. */
const UNMEASURED = 1

export async function measureDispatcher(context: BenchContext): Promise<Record<string, Measured>> {
  const { fleet, quick } = context
  await using owned = new AsyncDisposableStack()
  const [ours, sdks] = [await startManagedAgents(), await startManagedAgents()]
  owned.defer(() => ours.close())
  owned.defer(() => sdks.close())
  const worker = await startWarmWorker(context, { backends: ['process'] })
  owned.defer(async () => void (await worker.stop()))
  const dispatcher = await startDispatcher(fleet, ours, { environment: { tenant_id: TENANT } })
  owned.defer(async () => void (await dispatcher.stop()))
  const baseline = await startSdkWorker(sdks, await mkdtemp(path.join(fleet.dataDir, 'sdk-worker-')))
  owned.defer(async () => {
    baseline.kill('SIGTERM')
    await once(baseline, 'exit')
  })

  const calls = quick ? 20 : 100
  const samples = { ours: new Array<number[]>(), sdk: new Array<number[]>() }
  await interleave(
    [
      { name: 'dispatcher', run: async () => samples.ours.push(await timesOfCalls(ours, calls)) },
      { name: 'sdk', run: async () => samples.sdk.push(await timesOfCalls(sdks, calls)) },
    ],
    quick ? 6 : 12,
  )
  // The first session of each was the unmeasured run.
  const [mine, base] = [samples.ours.slice(1), samples.sdk.slice(1)]
  const medians = [mine, base].map((rounds) => rounds.map((times) => quantile(times, 0.5)))
  const [ourMedians = [], baseMedians = []] = medians
  const over = ourMedians.map((median, i) => median - (baseMedians[i] ?? Number.NaN))
  return {
    'dispatcher.bash': { unit: 'ms', summary: summarise(mine.flat()) },
    'dispatcher.bash.sdk': { unit: 'ms', summary: summarise(base.flat()) },
    'dispatcher.bash.vs_sdk': { unit: 'ratio', ratio: pairedRatio(ourMedians, baseMedians) },
    'dispatcher.bash.over_sdk': { unit: 'ms', value: round(quantile(over, 0.5)), summary: summarise(over) },
  }
}

async function startSdkWorker(double: ManagedAgentsDouble, workdir: string): Promise<ChildProcess> {
  const child = fork(
    fileURLToPath(new URL('sdk-tools-worker.ts', import.meta.url)),
    [double.url, double.environmentId, workdir],
    { env: { ...process.env, ENVIRONMENT_KEY: double.environmentKey } },
  )
  await once(child, 'message')
  return child
}

/** Milliseconds of each call of a new session, by the double's clock. */
async function timesOfCalls(double: ManagedAgentsDouble, calls: number): Promise<number[]> {
  const noop = { tool_use: { name: 'bash', input: { command: ':' } } }
  const session = double.createSession({
    script: [...Array.from({ length: UNMEASURED + calls }, () => noop), { idle: 'end_turn' }],
  })
  await session.untilAnswered(UNMEASURED + calls)
  await session.untilIdle()
  const asked = timesOf(session.events, 'agent.tool_use')
  const answered = timesOf(session.events, 'user.tool_result')
  return asked.map((at, i) => (answered[i] ?? Number.NaN) - at).slice(UNMEASURED)
}

const timesOf = (events: readonly { type: string; processed_at?: string | null }[], type: string): number[] =>
  events.filter((event) => event.type === type).map((event) => Date.parse(event.processed_at ?? ''))
