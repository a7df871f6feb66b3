/**
 * Metrics as Prometheus text (exposition format 0.0.4), rendered when somebody asks: a pull reader, no server, no timer.
 * Bounded by SERIES_PER_INSTRUMENT: what is beyond goes into one series labelled otel_metric_overflow.
 */
import type { Attributes } from '@opentelemetry/api'
import {
  DataPointType,
  MetricReader,
  type Histogram,
  type MetricData,
  type ResourceMetrics,
} from '@opentelemetry/sdk-metrics'
import { prometheusWord, unitSuffix } from './catalog.ts'
import type { GuardText } from './guard-text.ts'
import { redactMetrics } from './redact-metrics.ts'
import { temporalityOf } from './temporality.ts'

/** Our labels are closed sets: 15 endings by 12 backends is the largest. */
export const SERIES_PER_INSTRUMENT = 256

/** A reader of an observable that hangs must not hang the scrape; Prometheus itself gives up after 10 s. */
const COLLECT_TIMEOUT_MS = 2000

export const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** The pull reader; `text()` collects and renders. */
export class PrometheusReader extends MetricReader {
  readonly #guard: GuardText

  constructor(guard: GuardText) {
    super({ cardinalitySelector: () => SERIES_PER_INSTRUMENT, aggregationTemporalitySelector: temporalityOf })
    this.#guard = guard
  }

  /** Readers that fail leave a gap; the rest is rendered. */
  async text(): Promise<string> {
    const { resourceMetrics } = await this.collect({ timeoutMillis: COLLECT_TIMEOUT_MS })
    return renderPrometheus(redactMetrics(resourceMetrics, this.#guard))
  }

  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

/** Renders collected metrics. */
export function renderPrometheus({ resource, scopeMetrics }: ResourceMetrics): string {
  const metrics = scopeMetrics.flatMap((scope) => scope.metrics)
  const info = ['# TYPE target_info gauge', `target_info${labels(resource.attributes)} 1`]
  return `${[...info, ...metrics.flatMap(render)].join('\n')}\n`
}

function render(metric: MetricData): string[] {
  const { description } = metric.descriptor
  const counter = metric.dataPointType === DataPointType.SUM && metric.isMonotonic
  const name = metricName(metric) + (counter ? '_total' : '')
  const lines = (type: string, samples: string[]) => [
    `# HELP ${name} ${escapeHelp(description)}`,
    `# TYPE ${name} ${type}`,
    ...samples,
  ]
  switch (metric.dataPointType) {
    case DataPointType.SUM:
    case DataPointType.GAUGE: {
      const samples = metric.dataPoints.map((p) => `${name}${labels(p.attributes)} ${number(p.value)}`)
      return lines(counter ? 'counter' : 'gauge', samples)
    }
    case DataPointType.HISTOGRAM:
      return lines(
        'histogram',
        metric.dataPoints.flatMap((p) => histogram(name, p.attributes, p.value)),
      )
    case DataPointType.EXPONENTIAL_HISTOGRAM:
      // Text format 0.0.4 has no sparse buckets; none of our instruments makes them.
      return lines(
        'summary',
        metric.dataPoints.flatMap((p) => totals(name, p.attributes, p.value)),
      )
  }
}

function histogram(name: string, attributes: Attributes, value: Histogram): string[] {
  let seen = 0
  const buckets = value.buckets.counts.map((count, i) => {
    seen += count
    const le = value.buckets.boundaries[i]
    return `${name}_bucket${labels({ ...attributes, le: le === undefined ? '+Inf' : number(le) })} ${seen}`
  })
  return [...buckets, ...totals(name, attributes, value)]
}

const totals = (name: string, attributes: Attributes, value: { sum?: number; count: number }): string[] => [
  `${name}_sum${labels(attributes)} ${number(value.sum ?? 0)}`,
  `${name}_count${labels(attributes)} ${value.count}`,
]

const metricName = ({ descriptor }: MetricData): string =>
  prometheusWord(descriptor.name) + unitSuffix(descriptor.unit)

function labels(attributes: Attributes): string {
  const pairs = Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${prometheusWord(key)}="${escapeLabel(String(value))}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

const escapeLabel = (text: string): string =>
  text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"')

const escapeHelp = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')

function number(value: number): string {
  if (Number.isNaN(value)) return 'NaN'
  if (!Number.isFinite(value)) return value > 0 ? '+Inf' : '-Inf'
  return String(value)
}
