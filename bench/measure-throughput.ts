/** Executions per second end to end, closed loop, four in flight: single use with pools and without, and session cells. */
import type { ExecutionRequestInput } from '@cofferdam/contract'
import { executeSource } from './measure-latency.ts'
import type { BenchContext, Measured } from './report.ts'
import { closedLoop, closedLoopRates, perSecond } from './rounds.ts'
import { startWarmWorker } from './warm-worker.ts'

const IN_FLIGHT = 4
const SOURCE = 'print(1+1)'

interface Kind {
  name: string
  backend: string
  /** What each of the executions in flight asks beside its program; by its number. */
  more?: (lane: number) => Partial<ExecutionRequestInput>
}

const inSession = (lane: number): Partial<ExecutionRequestInput> => ({
  session: { key: `s${lane}`, scope: 'none' },
})

/** Kinds that one worker runs one after the other. */
interface Group {
  pools: boolean
  kinds: readonly Kind[]
}

const GROUPS: readonly Group[] = [
  {
    pools: false,
    kinds: [
      { name: 'none', backend: 'none' },
      { name: 'process.cold', backend: 'process' },
      { name: 'docker.cold', backend: 'docker' },
    ],
  },
  {
    pools: true,
    kinds: [
      { name: 'process', backend: 'process' },
      { name: 'process.cell', backend: 'process', more: inSession },
    ],
  },
  {
    pools: true,
    kinds: [
      { name: 'docker', backend: 'docker' },
      { name: 'docker.cell', backend: 'docker', more: inSession },
    ],
  },
]

export async function measureThroughput(context: BenchContext): Promise<Record<string, Measured>> {
  const results: Record<string, Measured> = {}
  for (const { pools, kinds } of GROUPS) {
    const skip = (kind: Kind, error: unknown): void =>
      context.skip(`throughput.${kind.name}`, error instanceof Error ? error.message : String(error))
    try {
      const worker = await startWarmWorker(context, {
        backends: [...new Set(kinds.map(({ backend }) => backend))],
        slots: IN_FLIGHT,
        warm: { pools: { enabled: pools } },
      })
      for (const kind of kinds)
        try {
          results[`throughput.${kind.name}`] = perSecond(await ratesOfKind(context, kind))
        } catch (error) {
          skip(kind, error)
        }
      await worker.stop()
    } catch (error) {
      // Without a worker none of them runs.
      for (const kind of kinds) if (!(`throughput.${kind.name}` in results)) skip(kind, error)
    }
  }
  return results
}

async function ratesOfKind(context: BenchContext, { backend, more = () => ({}) }: Kind): Promise<number[]> {
  const once = (lane: number): Promise<void> => executeSource(context, backend, SOURCE, more(lane))
  for (let lane = 0; lane < IN_FLIGHT; lane++) await once(lane)
  // A worker that has just started compiles what it runs: the first second and a half of session cells showed a third less.
  await closedLoop(once, IN_FLIGHT, context.quick ? 400 : 2000)
  const [durationMs, slices] = context.quick ? [1200, 3] : [15_000, 10]
  return await closedLoopRates(once, IN_FLIGHT, durationMs, slices)
}
