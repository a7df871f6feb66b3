/**
 * Enqueue → result on warm slots, single use, as the client sees it, paired with a bare interpreter start. Before each
 * timed run the pool has had time to refill, so that no start in the background is timed with either side; an
 * execution on `fake` directly before it stands for a fleet that is not asleep (`.idle` leaves it out).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { barePython, realPython } from './bare-python.ts'
import { execute, executeSource } from './measure-latency.ts'
import type { BenchContext, Measured } from './report.ts'
import { interleave, type Variant } from './rounds.ts'
import { pairedRatio, summarise } from './statistics.ts'
import { startWarmWorker } from './warm-worker.ts'

const BACKENDS = ['docker', 'process', 'gvisor']
/** Twice the slowest warm-up: gVisor takes 0.4 s, docker 0.15 s. */
const REFILL_MS = 800
/** A worker that has just started still compiles (some 10 % of a figure); a fleet has run for long. */
const WARM_UP = { fake: 300, backend: 20 }
const PANDAS = 'import pandas as pd; print(pd.Series([1, 1]).sum())'

export async function measureWarm(context: BenchContext): Promise<Record<string, Measured>> {
  const python = await realPython()
  const results: Record<string, Measured> = {}
  for (const backend of BACKENDS) {
    const start = [
      { language: 'python' },
      ...(backend === 'gvisor' ? [] : [{ language: 'python', preload: 'data' }]),
    ]
    const worker = await startWarmWorker(context, {
      backends: [backend, 'fake'],
      warm: { pools: { start, max_idle: 1 } },
    })
    try {
      Object.assign(results, await pairs(context, backend, python))
    } catch (error) {
      context.skip(`warm.${backend}`, error instanceof Error ? error.message : String(error))
    } finally {
      await worker.stop()
    }
  }
  return results
}

async function pairs(
  context: BenchContext,
  backend: string,
  python: string,
): Promise<Record<string, Measured>> {
  const rounds = context.quick ? 12 : 60
  for (let i = 0; i < WARM_UP.fake; i++) await execute(context, 'fake')
  for (let i = 0; i < WARM_UP.backend; i++) await execute(context, backend)
  const awake = async (): Promise<void> => {
    await sleep(REFILL_MS)
    await execute(context, 'fake')
  }
  const asleep = async (): Promise<void> => {
    await sleep(REFILL_MS)
  }
  const variants: Variant[] = [
    { name: 'bare', prepare: awake, run: barePython(python, 'print(1+1)') },
    { name: 'ours', prepare: awake, run: () => execute(context, backend) },
    { name: 'idle', prepare: asleep, run: () => execute(context, backend) },
  ]
  const results = await measured(`warm.${backend}`, variants, rounds)
  if (backend === 'gvisor') return results
  const pandas: Variant[] = [
    { name: 'bare', prepare: awake, run: barePython(python, PANDAS) },
    { name: 'ours', prepare: awake, run: () => executeSource(context, backend, PANDAS, { preload: 'data' }) },
  ]
  try {
    await barePython(python, PANDAS)()
  } catch {
    context.skip(`warm.${backend}.pandas`, `${python} cannot import pandas (apt install python3-pandas)`)
    return results
  }
  return { ...results, ...(await measured(`warm.${backend}.pandas`, pandas, Math.ceil(rounds / 2))) }
}

async function measured(
  name: string,
  variants: Variant[],
  rounds: number,
): Promise<Record<string, Measured>> {
  const samples = await interleave(variants, rounds)
  const bare = samples.get('bare') ?? []
  const ours = samples.get('ours') ?? []
  const idle = samples.get('idle')
  return {
    [`${name}.bare_python`]: { unit: 'ms', summary: summarise(bare) },
    [name]: { unit: 'ms', summary: summarise(ours) },
    [`${name}.vs_bare_python`]: { unit: 'ratio', ratio: pairedRatio(ours, bare) },
    ...(idle === undefined
      ? {}
      : {
          [`${name}.idle`]: { unit: 'ms', summary: summarise(idle) },
          [`${name}.idle.vs_bare_python`]: { unit: 'ratio', ratio: pairedRatio(idle, bare) },
        }),
  }
}
