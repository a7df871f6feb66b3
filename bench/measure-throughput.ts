/** Executions per second end to end, closed loop, four in flight: single use with pools and without, and session cells. */
import type { ExecutionRequestInput } from '@cofferdam/contract'
import { executeSource } from './measure-latency.ts'
import type { BenchContext, Measured } from './report.ts'
import { closedLoop } from './rounds.ts'
import { round } from './statistics.ts'
import { startWarmWorker } from './warm-worker.ts'

const IN_FLIGHT = 4
const SOURCE = 'print(1+1)'

interface Kind {
  name: string
  backend: string
  pools: boolean
  /** What each of the executions in flight asks beside its program; by its number. */
  more?: (lane: number) => Partial<ExecutionRequestInput>
}

const inSession = (lane: number): Partial<ExecutionRequestInput> => ({
  session: { key: `s${lane}`, scope: 'none' },
})

const KINDS: readonly Kind[] = [
  { name: 'none', backend: 'none', pools: false },
  { name: 'process.cold', backend: 'process', pools: false },
  { name: 'process', backend: 'process', pools: true },
  { name: 'process.cell', backend: 'process', pools: true, more: inSession },
  { name: 'docker.cold', backend: 'docker', pools: false },
  { name: 'docker', backend: 'docker', pools: true },
  { name: 'docker.cell', backend: 'docker', pools: true, more: inSession },
]

export async function measureThroughput(context: BenchContext): Promise<Record<string, Measured>> {
  const results: Record<string, Measured> = {}
  for (const kind of KINDS)
    try {
      results[`throughput.${kind.name}`] = { unit: 'per_second', value: round(await rateOf(context, kind)) }
    } catch (error) {
      context.skip(`throughput.${kind.name}`, error instanceof Error ? error.message : String(error))
    }
  return results
}

async function rateOf(context: BenchContext, { backend, pools, more = () => ({}) }: Kind): Promise<number> {
  const worker = await startWarmWorker(context, {
    backends: [backend],
    slots: IN_FLIGHT,
    warm: { pools: { enabled: pools } },
  })
  try {
    const once = (lane: number): Promise<void> => executeSource(context, backend, SOURCE, more(lane))
    for (let lane = 0; lane < IN_FLIGHT; lane++) await once(lane)
    // A worker that has just started compiles what it runs: the first second and a half of session cells showed a third less.
    await closedLoop(once, IN_FLIGHT, 2000)
    return await closedLoop(once, IN_FLIGHT, context.quick ? 4000 : 15_000)
  } finally {
    await worker.stop()
  }
}
