/**
 * Time from enqueue to the client's result on warm slots of single use, paired with a bare interpreter start.
 * The pool is refilled before each timed run, so that no background start disturbs either side. An execution
 * on `fake` just before the run keeps the fleet awake. `.idle` omits that execution and waits longer.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from '@cofferdam/embedded/testing'
import { barePython, realPython } from './bare-python.ts'
import { sum } from './flood.ts'
import { execute, executeSource } from './measure-latency.ts'
import type { BenchContext, Measured } from './report.ts'
import { closedLoop, interleave, type Variant } from './rounds.ts'
import { pairedRatio, summarise } from './statistics.ts'
import { startWarmWorker } from './warm-worker.ts'

const BACKENDS = ['docker', 'process', 'gvisor']
/** Pause after a slot was used. A fleet without an execution for this time is asleep. */
const ASLEEP_MS = 800
/**
 * Pause after a slot was used, if the fleet is woken up before the timed run. It is long enough to destroy
 * the sandbox.
 */
const AWAKE_MS = 300
/**
 * Pause after the new slot is ready. The bench sends no request meanwhile, because a request would wake the
 * worker.
 */
const SETTLED_MS = { awake: 100, asleep: 400 }
/** A refill takes 0.15 s on docker and 0.4 s on gVisor. After this time it has failed. */
const REFILLED_WITHIN_MS = 5000
/** A worker that has just started still compiles, which costs about 10 % of a figure. */
const WARM_UP_MS = { quick: 600, full: 1500 }
/** Longer than a refill takes: a count that does not change for this long is complete. */
const STEADY_MS = 500
const PANDAS = 'import pandas as pd; print(pd.Series([1, 1]).sum())'

export async function measureWarm(context: BenchContext): Promise<Record<string, Measured>> {
  const python = await realPython()
  const results: Record<string, Measured> = {}
  let stopping: Promise<unknown> = Promise.resolve()
  for (const backend of BACKENDS) {
    const start = [
      { language: 'python' },
      ...(backend === 'gvisor' ? [] : [{ language: 'python', preload: 'data' }]),
    ]
    const port = await freePort()
    // Nothing is timed before the previous backend's worker has ended.
    const [worker] = await Promise.all([
      startWarmWorker(context, {
        backends: [backend, 'fake'],
        warm: { pools: { start, max_idle: 1 } },
        env: { COFFERDAM_METRICS_PORT: String(port) },
      }),
      stopping,
    ])
    try {
      Object.assign(results, await pairs(context, backend, python, port))
    } catch (error) {
      context.skip(`warm.${backend}`, error instanceof Error ? error.message : String(error))
    } finally {
      stopping = worker.stop()
    }
  }
  await stopping
  return results
}

async function pairs(
  context: BenchContext,
  backend: string,
  python: string,
  port: number,
): Promise<Record<string, Measured>> {
  const rounds = context.quick ? 3 : 60
  await closedLoop(() => execute(context, 'fake'), 2, WARM_UP_MS[context.quick ? 'quick' : 'full'])
  for (let i = 0; i < (context.quick ? 3 : 20); i++) await execute(context, backend)
  const pool = await watchPool(port)
  const awake = async (): Promise<void> => {
    await pool.refilled(AWAKE_MS, SETTLED_MS.awake)
    await execute(context, 'fake')
  }
  const asleep = (): Promise<void> => pool.refilled(ASLEEP_MS, SETTLED_MS.asleep)
  const once = (): Promise<void> => pool.using(() => execute(context, backend))
  const variants: Variant[] = [
    { name: 'bare', prepare: awake, run: barePython(python, 'print(1+1)') },
    { name: 'ours', prepare: awake, run: once },
    { name: 'idle', prepare: asleep, run: once, isWarm: true },
  ]
  const results = await measured(`warm.${backend}`, variants, rounds)
  if (backend === 'gvisor') return results
  const pandas: Variant[] = [
    { name: 'bare', prepare: awake, run: barePython(python, PANDAS) },
    {
      name: 'ours',
      prepare: awake,
      run: () => pool.using(() => executeSource(context, backend, PANDAS, { preload: 'data' })),
    },
  ]
  try {
    await barePython(python, PANDAS)()
  } catch {
    context.skip(`warm.${backend}.pandas`, `${python} cannot import pandas (apt install python3-pandas)`)
    return results
  }
  return { ...results, ...(await measured(`warm.${backend}.pandas`, pandas, context.quick ? 3 : 30)) }
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

/** Follows the refills of a worker by its metrics: each run uses a slot, and each new slot counts once. */
async function watchPool(port: number) {
  let usedMs = performance.now()
  let wanted = await warmedOf(port)
  // While the count still grows, the worker is refilling slots that the warm-up used.
  for (let steady = false; !steady;) {
    await sleep(STEADY_MS)
    const warmed = await warmedOf(port)
    steady = warmed === wanted
    wanted = warmed
  }
  return {
    /** Runs something that uses one slot. */
    async using(run: () => Promise<void>): Promise<void> {
      wanted += 1
      await run()
      usedMs = performance.now()
    },
    /**
     * Resolves when the slot is replaced, but at least `settledMs` after that and `pauseMs` after its use.
     */
    async refilled(pauseMs: number, settledMs: number): Promise<void> {
      const deadline = performance.now() + REFILLED_WITHIN_MS
      while ((await warmedOf(port)) < wanted) {
        if (performance.now() > deadline) throw new Error(`no new slot within ${REFILLED_WITHIN_MS} ms`)
        await sleep(50)
      }
      await sleep(Math.max(settledMs, usedMs + pauseMs - performance.now()))
    },
  }
}

/** Slots that the worker has warmed so far. */
async function warmedOf(port: number): Promise<number> {
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const counts = page.matchAll(/^cofferdam_pool_warm_up(?:_seconds)?_count\b\S* (\d+)/gm)
  return sum([...counts].map(([, count]) => Number(count)))
}
