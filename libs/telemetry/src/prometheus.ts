/**
 * Renders metrics on request as Prometheus text (exposition format 0.0.4), or as OpenMetrics text 1.0 with
 * exemplars for clients that accept it, such as Prometheus. Beyond SERIES_PER_INSTRUMENT, values go into one
 * series labelled otel_metric_overflow.
 */
import type { Attributes } from '@opentelemetry/api'
import {
  DataPointType,
  MetricReader,
  type Histogram,
  type MetricData,
  type ResourceMetrics,
} from '@opentelemetry/sdk-metrics'
import { prometheusWord, unitSuffix } from './prometheus-name.ts'
import type { Exemplar, Exemplars } from './exemplars.ts'
import type { GuardText } from './guard-text.ts'
import { redactMetrics } from './redact-metrics.ts'
import { temporalityOf } from './temporality.ts'

/** Enough for our labels, which are closed sets: the largest is 15 endings by 12 backends. */
export const SERIES_PER_INSTRUMENT = 256

/** An instrument's callback that hangs must not block the scrape. Prometheus gives up after 10 s. */
const COLLECT_TIMEOUT_MS = 2000

const TEXT = 'text/plain; version=0.0.4; charset=utf-8'
const OPEN_METRICS = 'application/openmetrics-text'

/** The format for an `Accept` header: OpenMetrics if the header names it. */
export function formOf(accept: string | undefined): { isOpen: boolean; contentType: string } {
  const isOpen = accept?.includes(OPEN_METRICS) === true
  return { isOpen, contentType: isOpen ? `${OPEN_METRICS}; version=1.0.0; charset=utf-8` : TEXT }
}

/** A pull reader. `text()` collects and renders. */
export class PrometheusReader extends MetricReader {
  readonly #guard: GuardText
  readonly #exemplars: Exemplars | null

  constructor(guard: GuardText, exemplars: Exemplars | null) {
    super({ cardinalitySelector: () => SERIES_PER_INSTRUMENT, aggregationTemporalitySelector: temporalityOf })
    this.#guard = guard
    this.#exemplars = exemplars
  }

  /** If an instrument's callback fails, its metric is missing and the others are rendered. */
  async text(isOpen: boolean): Promise<string> {
    const { resourceMetrics } = await this.collect({ timeoutMillis: COLLECT_TIMEOUT_MS })
    const form = isOpen ? { isOpen, exemplars: this.#exemplars } : CLASSIC
    return renderPrometheus(redactMetrics(resourceMetrics, this.#guard), form)
  }

  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

interface Form {
  isOpen: boolean
  exemplars: Exemplars | null
}
const CLASSIC: Form = { isOpen: false, exemplars: null }

function renderPrometheus({ resource, scopeMetrics }: ResourceMetrics, form: Form): string {
  const metrics = scopeMetrics.flatMap((scope) => scope.metrics)
  const type = form.isOpen ? '# TYPE target info' : '# TYPE target_info gauge'
  const lines = [type, `target_info${labels(resource.attributes)} 1`]
  for (const metric of metrics) lines.push(...render(metric, form))
  return `${lines.join('\n')}\n${form.isOpen ? '# EOF\n' : ''}`
}

function render(metric: MetricData, { isOpen, exemplars }: Form): string[] {
  const { description } = metric.descriptor
  const counter = metric.dataPointType === DataPointType.SUM && metric.isMonotonic
  const family = metricName(metric)
  const name = family + (counter ? '_total' : '')
  // In OpenMetrics, a counter's family has no `_total` suffix, but its samples have.
  const titled = isOpen ? family : name
  const lines = (type: string, samples: string[]) => [
    `# HELP ${titled} ${escapeHelp(description)}`,
    `# TYPE ${titled} ${type}`,
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
        metric.dataPoints.flatMap((p) =>
          histogram(name, p.attributes, p.value, (le) =>
            suffix(exemplars?.find(metric.descriptor.name, p.attributes, le) ?? null),
          ),
        ),
      )
    case DataPointType.EXPONENTIAL_HISTOGRAM:
      // Text format 0.0.4 has no sparse buckets, so only sum and count are shown. None of our instruments
      // uses them.
      return lines(
        'summary',
        metric.dataPoints.flatMap((p) => totals(name, p.attributes, p.value)),
      )
  }
}

function histogram(
  name: string,
  attributes: Attributes,
  value: Histogram,
  exemplar: (le: number | '+Inf') => string,
): string[] {
  let seen = 0
  const buckets = value.buckets.counts.map((count, i) => {
    seen += count
    const le = value.buckets.boundaries[i] ?? '+Inf'
    return `${name}_bucket${labels({ ...attributes, le: String(le) })} ${seen}${exemplar(le)}`
  })
  return [...buckets, ...totals(name, attributes, value)]
}

const suffix = (exemplar: Exemplar | null): string =>
  exemplar === null
    ? ''
    : ` # {trace_id="${exemplar.traceId}"} ${number(exemplar.value)} ${exemplar.atMs / 1000}`

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
