/**
 * Executions per second end to end, four in flight: single use with pools and without, and session cells. For
 * cells also the worker's CPU time per execution.
 */
import type { ExecutionRequestInput } from '@cofferdam/contract'
import { executeSource } from './measure-latency.ts'
import { cpuMsOf } from './process-cpu.ts'
import type { BenchContext, Measured } from './report.ts'
import { closedLoop, closedLoopRates, perSecond } from './rounds.ts'
import { quantile, round, summarise } from './statistics.ts'
import { startWarmWorker } from './warm-worker.ts'

const IN_FLIGHT = 4
const SOURCE = 'print(1+1)'

interface Kind {
  name: string
  backend: string
  /** For session cells: what the executions of one lane request besides their program. */
  more?: (lane: number) => Partial<ExecutionRequestInput>
}

const inSession = (lane: number): Partial<ExecutionRequestInput> => ({
  session: { key: `s${lane}`, scope: 'none' },
})

/** Kinds that the same worker runs one after the other. */
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
  let stopping: Promise<unknown> = Promise.resolve()
  for (const { pools, kinds } of GROUPS) {
    const skip = (kind: Kind, error: unknown): void =>
      context.skip(`throughput.${kind.name}`, error instanceof Error ? error.message : String(error))
    try {
      // Nothing is timed before the previous group's worker has ended.
      const [worker] = await Promise.all([
        startWarmWorker(context, {
          backends: [...new Set(kinds.map(({ backend }) => backend))],
          slots: IN_FLIGHT,
          warm: { pools: { enabled: pools } },
        }),
        stopping,
      ])
      for (const kind of kinds)
        try {
          Object.assign(results, await measureKind(context, kind, worker.process.pid ?? 0))
        } catch (error) {
          skip(kind, error)
        }
      stopping = worker.stop()
    } catch (error) {
      // Without a worker no kind of the group runs.
      for (const kind of kinds) if (!(`throughput.${kind.name}` in results)) skip(kind, error)
    }
  }
  await stopping
  return results
}

async function measureKind(
  context: BenchContext,
  { name, backend, more }: Kind,
  worker: number,
): Promise<Record<string, Measured>> {
  const once = (lane: number): Promise<void> => executeSource(context, backend, SOURCE, more?.(lane))
  for (let lane = 0; lane < IN_FLIGHT; lane++) await once(lane)
  // A worker that has just started still compiles: session cells were a third slower in the first 1.5 s.
  await closedLoop(once, IN_FLIGHT, context.quick ? 400 : 2000)
  const [durationMs, slices] = context.quick ? [900, 3] : [15_000, 10]
  // The worker's CPU time at the start and after each execution.
  const cpuMs = [cpuMsOf(worker)]
  const counted = async (lane: number): Promise<void> => {
    await once(lane)
    cpuMs.push(cpuMsOf(worker))
  }
  const rates = await closedLoopRates(counted, IN_FLIGHT, durationMs, slices)
  return {
    [`throughput.${name}`]: perSecond(rates),
    ...(more === undefined
      ? {}
      : { [`throughput.${name}.cpu.worker`]: perExecution(sliceMeans(cpuMs, slices)) }),
  }
}

/** Mean growth of a counter per execution, in each of `slices` equal shares of the executions. */
function sliceMeans(counter: readonly number[], slices: number): number[] {
  const ends = Array.from({ length: slices + 1 }, (_, n) => Math.floor((n * (counter.length - 1)) / slices))
  return ends.slice(1).flatMap((end, n) => {
    const begin = ends[n] ?? 0
    return end === begin ? [] : [((counter[end] ?? 0) - (counter[begin] ?? 0)) / (end - begin)]
  })
}

const perExecution = (meansMs: readonly number[]): Measured => {
  const us = meansMs.map((ms) => ms * 1000)
  return { unit: 'us', value: round(quantile(us, 0.5)), summary: summarise(us) }
}
