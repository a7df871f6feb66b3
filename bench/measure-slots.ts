/** Memory of one waiting slot: the proportional set size of every process that appeared with the slots. */
import { readdirSync, readFileSync } from 'node:fs'
import { barePython, realPython } from './bare-python.ts'
import { openLocalPlace } from './local-place.ts'
import type { BenchContext, Measured } from './report.ts'
import { round } from './statistics.ts'

const SLOTS = 4
const KINDS = [
  { name: 'python', start: { language: 'python' } },
  { name: 'python_data', start: { language: 'python', preload: 'data' } },
  { name: 'javascript', start: { language: 'javascript' } },
] as const

export async function measureSlots(context: BenchContext): Promise<Record<string, Measured>> {
  const results: Record<string, Measured> = {}
  const python = await realPython()
  for (const backend of ['docker', 'process'])
    for (const { name, start } of KINDS)
      try {
        // Throws if this host lacks pandas. Without it a slot that preloads it never becomes ready.
        if (backend === 'process' && 'preload' in start) await barePython(python, 'import pandas; print(2)')()
        results[`slots.${backend}.${name}`] = { unit: 'MiB', value: round(await perSlot(backend, start)) }
      } catch (error) {
        context.skip(`slots.${backend}.${name}`, error instanceof Error ? error.message : String(error))
      }
  return results
}

async function perSlot(backend: string, start: object): Promise<number> {
  const before = new Set(pids())
  const places = await Promise.all(
    Array.from({ length: SLOTS }, () => openLocalPlace(backend, { pools: { start: [start], max_idle: 1 } })),
  )
  try {
    await Promise.all(places.map((place) => place.ready(1)))
    const added = pids().filter((pid) => !before.has(pid))
    return added.reduce((sum, pid) => sum + pssMib(pid), 0) / SLOTS
  } finally {
    await Promise.all(places.map((place) => place[Symbol.asyncDispose]()))
  }
}

const pids = (): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)

/** 0 for a process that has ended or that this user cannot inspect. */
function pssMib(pid: number): number {
  try {
    return (
      Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0) / 1024
    )
  } catch {
    return 0
  }
}
