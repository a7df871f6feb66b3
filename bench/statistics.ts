/** Order statistics of samples, and ratios of paired samples with their spread. */

export interface Summary {
  n: number
  p50: number
  p90: number
  p99: number
  min: number
  max: number
}

/** The q-quantile by linear interpolation. NaN for no samples. */
export function quantile(samples: readonly number[], q: number): number {
  const sorted = [...samples].sort((a, b) => a - b)
  const place = (sorted.length - 1) * q
  const low = sorted[Math.floor(place)] ?? Number.NaN
  const high = sorted[Math.ceil(place)] ?? Number.NaN
  return low + (high - low) * (place - Math.floor(place))
}

export function summarise(samples: readonly number[]): Summary {
  return {
    n: samples.length,
    p50: round(quantile(samples, 0.5)),
    p90: round(quantile(samples, 0.9)),
    p99: round(quantile(samples, 0.99)),
    min: round(Math.min(...samples)),
    max: round(Math.max(...samples)),
  }
}

export interface Ratio {
  n: number
  /** Median of the per-round ratios. */
  median: number
  /** 10th and 90th percentile of the per-round ratios. */
  p10: number
  p90: number
}

/** Ratio of `ours` to `base` by round, which cancels noise that hits both. */
export function pairedRatio(ours: readonly number[], base: readonly number[]): Ratio {
  const ratios = ours.slice(0, base.length).map((value, i) => value / (base[i] ?? Number.NaN))
  return {
    n: ratios.length,
    median: round(quantile(ratios, 0.5)),
    p10: round(quantile(ratios, 0.1)),
    p90: round(quantile(ratios, 0.9)),
  }
}

/** Three significant digits, because more would be noise. */
export const round = (value: number): number => Number(value.toPrecision(3))
