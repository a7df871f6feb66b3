/** Converts our names to Prometheus names. */
import { METRIC_FACTS } from './metric-catalog.ts'
import type { MetricName } from './names.ts'

const UNIT_SUFFIX: Readonly<Record<string, string>> = {
  s: '_seconds',
  ms: '_milliseconds',
  By: '_bytes',
  '1': '_ratio',
}

export const unitSuffix = (unit: string): string => UNIT_SUFFIX[unit] ?? ''

/** A name in the characters that Prometheus allows. */
export const prometheusWord = (name: string): string =>
  name.replaceAll(/[^A-Za-z0-9_]/g, '_').replace(/^(?=\d)/, '_')

/** A metric's name in /metrics. Histograms add `_bucket`, `_sum` and `_count`. */
export function prometheusName(metric: MetricName): string {
  const { kind, unit } = METRIC_FACTS[metric]
  return prometheusWord(metric) + unitSuffix(unit) + (kind === 'counter' ? '_total' : '')
}
