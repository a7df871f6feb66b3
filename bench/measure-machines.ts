/**
 * The backend of virtual machines alone, from `open` to the result. It is paired with a clone that the engine
 * restores without the backend, and with cold sandboxes of docker and gVisor. With `--quick` it runs only if
 * it is named.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { openRawClones } from '@cofferdam/backend-microvm/raw'
import { DEFAULT_LIMITS } from '@cofferdam/contract'
import { openLocalPlace, type LocalPlace } from './local-place.ts'
import type { BenchContext, Measured } from './report.ts'
import { closedLoopRates, interleave, perSecond, type Variant } from './rounds.ts'
import { pairedRatio, round, summarise } from './statistics.ts'

const PRINT = { type: 'script', language: 'python', source: 'print(1+1)' } as const
/** Machines that wait while their memory is measured. */
const CLONES = 8
const LANES = 2
const SLICES = 3

export async function measureMachines(context: BenchContext): Promise<Record<string, Measured>> {
  try {
    await using place = await openLocalPlace('microvm', null)
    await using raw = await openRawClones(DEFAULT_LIMITS)
    return {
      'machines.template': { unit: 'ms', value: Math.round(raw.templateMs) },
      ...(await againstRaw(context, place, raw)),
      ...(await memory(place)),
      'machines.rate': await rate(context, place),
      ...(await against(context, place, 'docker')),
      ...(await against(context, place, 'gvisor')),
    }
  } catch (error) {
    context.skip('machines', error instanceof Error ? error.message : String(error))
    return {}
  }
}

type Raw = Awaited<ReturnType<typeof openRawClones>>

/**
 * Variants whose untimed preparation waits until the previous run's sandbox is destroyed. If destroying it
 * fails, the bench notes the error and keeps the figures.
 */
function createEnds(context: BenchContext) {
  let gone: Promise<unknown> = Promise.resolve()
  const prepare = (): Promise<unknown> => gone.catch((error: unknown) => context.note(String(error)))
  const cold = (name: string, from: LocalPlace): Variant => ({
    name,
    prepare,
    run: async () => ({ gone } = await from.once(from.spec(PRINT), '2\n')),
  })
  const raw = (from: Raw, restored: number[]): Variant => ({
    name: 'raw',
    prepare,
    async run() {
      const ended = await from.once(PRINT, '2\n')
      restored.push(ended.restoredMs)
      gone = ended.gone
    },
  })
  return { prepare, cold, raw }
}

async function againstRaw(
  context: BenchContext,
  place: LocalPlace,
  raw: Raw,
): Promise<Record<string, Measured>> {
  const restored: number[] = []
  const ends = createEnds(context)
  const samples = await interleave(
    [ends.cold('microvm', place), ends.raw(raw, restored)],
    context.quick ? 6 : 30,
  )
  await ends.prepare()
  const [ours = [], base = []] = ['microvm', 'raw'].map((name) => samples.get(name))
  return {
    'machines.microvm': { unit: 'ms', summary: summarise(ours) },
    'machines.raw': { unit: 'ms', summary: summarise(base) },
    'machines.restore': { unit: 'ms', summary: summarise(restored) },
    'machines.microvm.vs_raw': { unit: 'ratio', ratio: pairedRatio(ours, base) },
  }
}

async function against(
  context: BenchContext,
  place: LocalPlace,
  name: string,
): Promise<Record<string, Measured>> {
  try {
    await using other = await openLocalPlace(name, null)
    const ends = createEnds(context)
    const samples = await interleave(
      [ends.cold('microvm', place), ends.cold(name, other)],
      context.quick ? 6 : 30,
    )
    await ends.prepare()
    const [ours = [], base = []] = ['microvm', name].map((key) => samples.get(key))
    return {
      [`machines.${name}`]: { unit: 'ms', summary: summarise(base) },
      [`machines.${name}.rate`]: await rate(context, other),
      [`machines.microvm.vs_${name}`]: { unit: 'ratio', ratio: pairedRatio(ours, base) },
    }
  } catch (error) {
    context.skip(`machines.${name}`, error instanceof Error ? error.message : String(error))
    return {}
  }
}

/** Mean proportional set size of a waiting machine. Pages that the clones share are divided among them. */
async function memory(place: LocalPlace): Promise<Record<string, Measured>> {
  const before = new Set(machines())
  const { signal } = new AbortController()
  const opened = await Promise.all(
    Array.from({ length: CLONES }, () => place.backend.open(place.spec(PRINT), signal)),
  )
  const own = machines().filter((pid) => !before.has(pid))
  const mib = own.map((pid) => kibOf(pid) / 1024)
  await Promise.all(opened.map((sandbox) => sandbox[Symbol.asyncDispose]()))
  return { 'machines.memory': { unit: 'MiB', value: round(mib.reduce((a, b) => a + b, 0) / mib.length) } }
}

const read = (path: string): string => {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}
const machines = (): string[] =>
  readdirSync('/proc').filter((pid) => read(`/proc/${pid}/cmdline`).includes('\0cofferdam-sbx_'))
const kibOf = (pid: string): number =>
  Number(/^Pss:\s+(\d+) kB/m.exec(read(`/proc/${pid}/smaps_rollup`))?.[1] ?? Number.NaN)

/** Sandboxes per second that are opened, run and destroyed by two loops at once. */
async function rate(context: BenchContext, place: LocalPlace): Promise<Measured> {
  const once = async (): Promise<void> => await (await place.once(place.spec(PRINT), '2\n')).gone
  const rates = await closedLoopRates(once, LANES, context.quick ? 6000 : 30_000, SLICES)
  return perSecond(rates)
}
