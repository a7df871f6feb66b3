/** Runs variants interleaved: each round runs every variant in a random order, so drift hits all alike. */

import type { Measured } from './report.ts'
import { quantile, round, summarise } from './statistics.ts'

export interface Variant {
  name: string
  run(): Promise<unknown>
  /** Not timed. */
  prepare?(): Promise<unknown>
  /**
   * True if this variant needs no unmeasured first run, because it or another variant with the same code has
   * run.
   */
  isWarm?: boolean
}

/** Milliseconds of each variant per round, after an unmeasured run of each. Stops early at `deadlineMs`. */
export async function interleave(
  variants: readonly Variant[],
  rounds: number,
  deadlineMs = Number.POSITIVE_INFINITY,
): Promise<Map<string, number[]>> {
  const samples = new Map<string, number[]>(variants.map((v) => [v.name, []]))
  for (const variant of variants)
    if (variant.isWarm !== true) {
      await variant.prepare?.()
      await variant.run()
    }
  for (let i = 0; i < rounds && Date.now() < deadlineMs; i++)
    for (const variant of shuffled(variants)) {
      await variant.prepare?.()
      const started = performance.now()
      await variant.run()
      samples.get(variant.name)?.push(performance.now() - started)
    }
  return samples
}

/** Keeps `concurrency` calls of `run` in flight for `durationMs`. The rate is completed calls per second. */
export async function closedLoop(
  run: (lane: number) => Promise<unknown>,
  concurrency: number,
  durationMs: number,
): Promise<number> {
  const [rate = Number.NaN] = await closedLoopRates(run, concurrency, durationMs, 1)
  return rate
}

/** Like `closedLoop`, but resolves with the rate of each of `slices` equal shares of the completed calls. */
export async function closedLoopRates(
  run: (lane: number) => Promise<unknown>,
  concurrency: number,
  durationMs: number,
  slices: number,
): Promise<number[]> {
  const startedMs = performance.now()
  const endMs = startedMs + durationMs
  const completedMs: number[] = []
  await Promise.all(
    Array.from({ length: concurrency }, async (_, lane) => {
      while (performance.now() < endMs) {
        await run(lane)
        completedMs.push(performance.now())
      }
    }),
  )
  return ratesOf(startedMs, completedMs, slices)
}

/**
 * Completions per second in each of `slices` equal shares of all completions. Shares of time would be
 * inexact: with ten completions a second, a slice of time often has one more or one less.
 */
export function ratesOf(startedMs: number, completedMs: readonly number[], slices: number): number[] {
  const ends = Array.from({ length: slices + 1 }, (_, n) => Math.floor((n * completedMs.length) / slices))
  const timeOf = (count: number): number => completedMs[count - 1] ?? startedMs
  return ends.slice(1).flatMap((end, n) => {
    const begin = ends[n] ?? 0
    return end === begin ? [] : [((end - begin) * 1000) / (timeOf(end) - timeOf(begin))]
  })
}

/** A rate with its spread: the median of slices or rounds, and their summary. */
export const perSecond = (rates: readonly number[]): Measured => ({
  unit: 'per_second',
  value: round(quantile(rates, 0.5)),
  summary: summarise(rates),
})

function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, key: Math.random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ item }) => item)
}
