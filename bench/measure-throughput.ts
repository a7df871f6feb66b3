/** Executions per second end to end, closed loop, per backend. */
import { closedLoop } from './rounds.ts'
import { execute } from './measure-latency.ts'
import type { BenchContext, Measured } from './report.ts'
import { round } from './statistics.ts'

const BACKENDS = ['none', 'process', 'docker']

export async function measureThroughput(context: BenchContext): Promise<Record<string, Measured>> {
  const worker = await context.fleet.startWorker({
    COFFERDAM_BACKENDS: BACKENDS.join(','),
    COFFERDAM_SLOTS: '4',
  })
  const results: Record<string, Measured> = {}
  try {
    for (const backend of BACKENDS)
      try {
        await execute(context, backend)
        const perSecond = await closedLoop(() => execute(context, backend), 4, context.quick ? 1500 : 20_000)
        results[`throughput.${backend}`] = { unit: 'per_second', value: round(perSecond) }
      } catch (error) {
        context.skip(`throughput.${backend}`, error instanceof Error ? error.message : String(error))
      }
  } finally {
    await worker.stop()
  }
  return results
}
