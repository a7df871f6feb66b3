/** The shape of a bench report and what every phase is given. */
import type { Fleet } from '../tests/fleet.ts'
import type { Ratio, Summary } from './statistics.ts'

export interface Measured {
  /** The unit of the number. */
  unit: 'ms' | 'per_second' | 'ratio' | 'MiB' | 'us' | 'count'
  value?: number
  summary?: Summary
  ratio?: Ratio
}

export interface BenchReport {
  schema: 1
  quick: boolean
  host: { cpus: number; cpu_model: string; memory_mib: number; kernel: string; node: string }
  at: string
  results: Record<string, Measured>
  /** Measurements that this machine cannot make, with the reason. */
  skipped: Record<string, string>
}

export interface BenchContext {
  fleet: Fleet
  quick: boolean
  /** The value of `--executions`. Null for the default of the phase. Only `chaos` reads it. */
  executions: number | null
  /** The value of `--rows`. Only `migrations` reads it. */
  rows: number | null
  skip(what: string, why: string): void
  note(line: string): void
}

export type Phase = (context: BenchContext) => Promise<Record<string, Measured>>
