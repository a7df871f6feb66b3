/**
 * The time of a backend alone, in this process, without queue, caps and audit: on a warm slot (open, run,
 * exit known), on an empty pool paired with a backend without pools, and in session cells.
 */
import { openLocalPlace, type LocalPlace } from './local-place.ts'
import type { BenchContext, Measured } from './report.ts'
import { perSecond, ratesOf } from './rounds.ts'
import { pairedRatio, summarise } from './statistics.ts'

const PRINT = { type: 'script', language: 'python', source: 'print(1+1)' } as const
const NODE = { type: 'script', language: 'javascript', source: 'console.log(1+1)' } as const

const KINDS = [
  { name: 'docker', backend: 'docker', section: {} },
  { name: 'docker_attach', backend: 'docker', section: { transport: 'attach' } },
  { name: 'gvisor', backend: 'gvisor', section: {} },
  { name: 'process', backend: 'process', section: {} },
] as const

export async function measureBound(context: BenchContext): Promise<Record<string, Measured>> {
  const results: Record<string, Measured> = {}
  for (const { name, backend, section } of KINDS)
    try {
      Object.assign(results, await bound(context, name, backend, section))
      if (name !== 'docker_attach') {
        Object.assign(results, await emptyPool(context, name, backend, section))
        Object.assign(results, await cells(context, name, backend, section))
      }
    } catch (error) {
      context.skip(`bound.${name}`, error instanceof Error ? error.message : String(error))
    }
  return results
}

async function bound(
  { quick }: BenchContext,
  name: string,
  backend: string,
  section: object,
): Promise<Record<string, Measured>> {
  const start = [{ language: 'python' }, { language: 'javascript' }]
  await using place = await openLocalPlace(backend, { pools: { start, max_idle: 1 } }, section)
  const python: number[] = []
  const node: number[] = []
  for (let i = 0; i < (quick ? 3 : 200); i++) {
    await place.ready(2)
    python.push(await timed(place, PRINT))
    await place.ready(2)
    node.push(await timed(place, NODE))
  }
  return {
    [`bound.${name}.python`]: { unit: 'ms', summary: summarise(python) },
    [`bound.${name}.javascript`]: { unit: 'ms', summary: summarise(node) },
  }
}

async function timed(place: LocalPlace, program: typeof PRINT | typeof NODE): Promise<number> {
  const { ms, gone } = await place.once(place.spec(program), '2\n')
  await gone
  return ms
}

/** Requests a new memory size each time, for which no pool has a slot. Paired with a pool-less backend. */
async function emptyPool(
  { quick }: BenchContext,
  name: string,
  backend: string,
  section: object,
): Promise<Record<string, Measured>> {
  const pools = { start: [], max_idle: 1, max_kinds: 64 }
  await using both = new AsyncDisposableStack()
  const open = async (warm: object | null): Promise<LocalPlace> =>
    both.use(await openLocalPlace(backend, warm, section))
  const [pooled, cold] = await Promise.all([open({ pools }), open(null)])
  const empty: number[] = []
  const base: number[] = []
  const once = async (place: LocalPlace, memoryMib: number): Promise<number> => {
    const { ms, gone } = await place.once(place.spec(PRINT, { limits: { memory_mib: memoryMib } }), '2\n')
    await gone
    return ms
  }
  for (let i = 0; i < (quick ? 3 : 40); i++) {
    base.push(await once(cold, 256 + i))
    empty.push(await once(pooled, 256 + i))
    // Each round leaves one warm slot of its memory size, which no later round uses.
    await pooled.ready(i + 1)
  }
  return {
    [`bound.${name}.cold`]: { unit: 'ms', summary: summarise(base) },
    [`bound.${name}.empty_pool`]: { unit: 'ms', summary: summarise(empty) },
    [`bound.${name}.empty_pool.vs_cold`]: { unit: 'ratio', ratio: pairedRatio(empty, base) },
  }
}

/** Two concurrent sessions, each with one run after the other. */
async function cells(
  { quick }: BenchContext,
  name: string,
  backend: string,
  section: object,
): Promise<Record<string, Measured>> {
  await using place = await openLocalPlace(backend, { pools: { start: [] } }, section)
  const turn = async (key: string): Promise<number> => {
    const kept = { reuse: 'session', session: { key, scope: 'none', idleMs: null } } as const
    const { ms, gone } = await place.once(place.spec(PRINT, kept), '2\n')
    await gone
    return ms
  }
  // The first turn opens the cell, which takes as long as many later turns, so it is not measured.
  await Promise.all([turn('a'), turn('b')])
  const samples: number[] = []
  const completedMs: number[] = []
  const startedMs = performance.now()
  const endMs = startedMs + (quick ? 600 : 10_000)
  const session = async (key: string): Promise<void> => {
    while (performance.now() < endMs) {
      samples.push(await turn(key))
      completedMs.push(performance.now())
    }
  }
  await Promise.all([session('a'), session('b')])
  return {
    [`bound.${name}.cell`]: { unit: 'ms', summary: summarise(samples) },
    [`bound.${name}.cell.rate`]: perSecond(ratesOf(startedMs, completedMs, quick ? 3 : 10)),
  }
}
