/** Runs rules over the same days, and sums up. */
import { sessionsOf, type Scenario } from './day.ts'
import { simulatePool, type Outcome, type Policy } from './simulate-pool.ts'

/** Per day, except for the waits, which are of all days together. */
export interface Summary {
  sessions: number
  coldStarts: number
  idlePodHours: number
  podHours: number
  waitSeconds: { p50: number; p99: number; p999: number }
}

/** One outcome for each seed. */
export function runDays(rule: () => Policy, scenario: Scenario, seeds: readonly number[]): Outcome[] {
  return seeds.map((seed) => simulatePool(sessionsOf(scenario, seed), rule(), scenario.places, seed))
}

/** `days` must not be empty. */
export function summarise(days: readonly Outcome[]): Summary {
  const mean = (of: (day: Outcome) => number): number =>
    days.reduce((sum, day) => sum + of(day), 0) / days.length
  const waits = Float64Array.from(days.flatMap((day) => [...day.waits])).sort()
  const quantile = (share: number): number => waits[Math.floor(waits.length * share)] ?? Number.NaN
  return {
    sessions: mean((day) => day.sessions),
    coldStarts: mean((day) => day.coldStarts),
    idlePodHours: mean((day) => day.idlePodSeconds) / 3600,
    podHours: mean((day) => day.podSeconds) / 3600,
    waitSeconds: { p50: quantile(0.5), p99: quantile(0.99), p999: quantile(0.999) },
  }
}

/** A row of a table in docs/operations/dispatcher-scaling.md. */
export function rowOf(name: string, summary: Summary): string {
  const { coldStarts, idlePodHours, podHours, waitSeconds } = summary
  const waits = [waitSeconds.p50, waitSeconds.p99, waitSeconds.p999].map((wait) => wait.toFixed(1))
  const cells = [name, coldStarts.toFixed(1), ...waits, idlePodHours.toFixed(0), podHours.toFixed(0)]
  return `| ${cells.join(' | ')} |`
}

/** Numbers from 1 to `count`. */
export const seedsUpTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i + 1)
