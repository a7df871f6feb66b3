/**
 * Executions per second end to end, four in flight: single use with pools and without, and session cells. For
 * cells also the worker's CPU time per execution, paired with that of a bare interpreter start.
 */
import type { ExecutionRequestInput } from '@cofferdam/contract'
import { barePython, realPython } from './bare-python.ts'
import { executeSource } from './measure-latency.ts'
import { cpuMsOf, reapedCpuMsOf } from './process-cpu.ts'
import type { BenchContext, Measured } from './report.ts'
import { closedLoop, closedLoopRates, perSecond } from './rounds.ts'
import { pairedRatio, summarise } from './statistics.ts'
import { startWarmWorker } from './warm-worker.ts'

const IN_FLIGHT = 4
const SOURCE = 'print(1+1)'

interface Kind {
  name: string
  backend: string
  /**
   * For session cells: further request fields, by the number of the concurrent loop that sends the request.
   */
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
  const rates = await closedLoopRates(once, IN_FLIGHT, durationMs, slices)
  return {
    [`throughput.${name}`]: perSecond(rates),
    ...(more === undefined ? {} : await measureCpu(context, `throughput.${name}.cpu`, worker, once)),
  }
}

/** CPU time that an execution costs the worker, and that of a bare start of the same program, in turns. */
async function measureCpu(
  { quick }: BenchContext,
  name: string,
  worker: number,
  once: (lane: number) => Promise<void>,
): Promise<Record<string, Measured>> {
  const [rounds, roundMs] = quick ? [6, 300] : [10, 1500]
  const bare = barePython(await realPython(), SOURCE)
  const bareUs: number[] = []
  const workerUs: number[] = []
  for (let n = 0; n < rounds; n++) {
    bareUs.push(await cpuUsPerRun(bare, roundMs, () => reapedCpuMsOf(process.pid)))
    workerUs.push(await cpuUsPerRun(once, roundMs, () => cpuMsOf(worker)))
  }
  return {
    [`${name}.bare_python`]: { unit: 'us', summary: summarise(bareUs) },
    [`${name}.worker`]: { unit: 'us', summary: summarise(workerUs) },
    [`${name}.worker.vs_bare_python`]: { unit: 'ratio', ratio: pairedRatio(workerUs, bareUs) },
  }
}

/** Growth of a CPU counter per run, with IN_FLIGHT runs at once for `durationMs`. */
async function cpuUsPerRun(
  run: (lane: number) => Promise<void>,
  durationMs: number,
  counterMs: () => number,
): Promise<number> {
  const startMs = counterMs()
  let completed = 0
  const counted = async (lane: number): Promise<void> => {
    await run(lane)
    completed += 1
  }
  await closedLoop(counted, IN_FLIGHT, durationMs)
  return ((counterMs() - startMs) * 1000) / completed
}
