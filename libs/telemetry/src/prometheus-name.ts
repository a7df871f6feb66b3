/** What our names become in Prometheus. */
import { METRIC_FACTS } from './metric-catalog.ts'
import type { MetricName } from './names.ts'

const UNIT_SUFFIX: Readonly<Record<string, string>> = {
  s: '_seconds',
  ms: '_milliseconds',
  By: '_bytes',
  '1': '_ratio',
}

/** The part of a name that its unit adds in Prometheus. */
export const unitSuffix = (unit: string): string => UNIT_SUFFIX[unit] ?? ''

/** A name in Prometheus' alphabet. */
export const prometheusWord = (name: string): string =>
  name.replaceAll(/[^A-Za-z0-9_]/g, '_').replace(/^(?=\d)/, '_')

/** The name under which /metrics shows a metric; histograms add `_bucket`, `_sum` and `_count`. */
export function prometheusName(metric: MetricName): string {
  const { kind, unit } = METRIC_FACTS[metric]
  return prometheusWord(metric) + unitSuffix(unit) + (kind === 'counter' ? '_total' : '')
}
