/** docs/reference/telemetry.md, generated from the catalog of libs/telemetry. */
import {
  ATTRIBUTE_FACTS,
  EVENT_FACTS,
  LOG_FACTS,
  METRIC_FACTS,
  prometheusName,
  SPAN_FACTS,
  type MetricFacts,
} from '@cofferdam/telemetry/api'
import type { MetricName } from '../libs/telemetry/src/names.ts'

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ')
const row = (...cells: string[]): string => `| ${cells.map(cell).join(' | ')} |`
const table = (headings: string[], rows: string[][]): string[] => [
  row(...headings),
  row(...headings.map(() => '---')),
  ...rows.map((cells) => row(...cells)),
  '',
]
const code = (text: string): string => `\`${text}\``
const codes = (names: readonly string[] = []): string => names.map(code).join(', ')

const UNITS: Readonly<Record<MetricFacts['unit'], string>> = { '': 'count', s: 's', By: 'bytes', '1': '0–1' }

const labelsOf = ({ labels, states }: MetricFacts): string =>
  labels
    .map((label) =>
      label === 'cofferdam.state' && states !== undefined
        ? `${code(label)} (${states.join(', ')})`
        : code(label),
    )
    .join(', ')

/** The whole page. */
export function telemetryPage(made: string): string {
  return `${[
    made,
    '# Telemetry',
    '',
    'Every span, event, attribute, metric and log record, with its stable name. A name changes only with a major version.',
    '',
    '## Traces',
    '',
    'One trace an execution; its parent is the `traceparent` of the request (W3C trace context), else the API begins it.',
    '',
    ...table(
      ['span', 'kind', 'from', 'parent', 'what', 'attributes', 'events'],
      Object.entries(SPAN_FACTS).map(([name, facts]) => [
        code(name),
        facts.kind,
        facts.from,
        facts.parent,
        facts.about,
        codes(facts.attributes),
        codes(facts.events),
      ]),
    ),
    '### Events',
    '',
    ...table(
      ['event', 'what'],
      Object.entries(EVENT_FACTS).map(([name, about]) => [code(name), about]),
    ),
    '### Sampling',
    '',
    'A process holds the spans of an attempt (worker) or request (API) back until its ending is known, then sends all of them',
    'or none. Sent always: an error, an ending that is not `ok` (refusals too), a deadline that passed, and what took or waited',
    '`COFFERDAM_TRACE_SLOW_MS` (10 s) or longer. Of the rest a share is sent, `COFFERDAM_TRACE_SAMPLE_RATIO` (all), for a worker also',
    '`telemetry.sample_ratio` in `cofferdam.config.yaml`, chosen by trace id: every process keeps the same traces. Bounds: 128 spans an attempt,',
    '8,192 in all; beyond them the oldest are sent undecided.',
    '',
    '- The API answers before an execution that nobody waits for has ended. Below a share of 1 the request of a failed execution may',
    '  therefore be missing while its worker’s spans are there; send everything and let a collector decide (`tail_sampling`) for whole traces.',
    '- A `traceparent` that ends in `-00` is obeyed: nothing is recorded, failures neither.',
    '',
    '### Without a collector',
    '',
    '`GET /v1/executions/{id}/trace` and `cofferdam status ID --trace` show what API and worker kept in Redis: an hour, 2,000 executions of at most',
    '16 KiB, at most 64 a second and process (failures first).',
    '',
    '## Metrics',
    '',
    '`/metrics` on the API (from this machine, or with an admin key) and, without keys, on `COFFERDAM_METRICS_PORT` of API and worker; the same',
    'over OTLP where `OTEL_EXPORTER_OTLP_ENDPOINT` is set. Figures of queue and fleet come from Redis: every API tells the same ones, so take',
    'their `max`, not their sum. No label names a tenant, agent or execution.',
    '',
    ...table(
      ['metric', 'Prometheus', 'kind', 'unit', 'from', 'labels', 'what'],
      (Object.keys(METRIC_FACTS) as MetricName[]).map((name) => {
        const facts = METRIC_FACTS[name]
        return [
          code(name),
          code(prometheusName(name)),
          facts.kind,
          UNITS[facts.unit],
          facts.from,
          labelsOf(facts),
          facts.about,
        ]
      }),
    ),
    'From a figure to its traces: with `Accept: application/openmetrics-text`, which Prometheus sends, `/metrics` is OpenMetrics and the buckets of',
    '`cofferdam.execution.wait` and `.duration` carry exemplars: the last trace in each that was sent to the collector. Start Prometheus with',
    '`--enable-feature=exemplar-storage`; the compose file does, and its Grafana opens them in Jaeger. What goes out by OTLP carries none (the SDK,',
    'sdk-metrics 3.1, records none). Failures and slow executions are all sent; every result and audit row has its `trace_id`.',
    '',
    '## Attributes',
    '',
    'Labels in Prometheus are the same with `_` for `.`.',
    '',
    ...table(
      ['attribute', 'what'],
      Object.entries(ATTRIBUTE_FACTS).map(([name, about]) => [code(name), about]),
    ),
    '## Log records',
    '',
    'JSON lines on stderr: `level` (10 trace … 60 fatal), `time`, `service`, `pid`, `msg`, inside a span `trace_id` and `span_id`, and the facts of the record',
    '(`err`, `execution_id`, `worker_id`, `backend`, …). `msg` is the stable name.',
    '',
    ...table(
      ['msg', 'level', 'from', 'what it means'],
      Object.entries(LOG_FACTS).map(([message, { level, from, about }]) => [
        code(message),
        level,
        from,
        about,
      ]),
    ),
    '## What never leaves',
    '',
    'Programs, their output, environment and stdin are in no span, metric or log line. Whatever text leaves (names, attributes, events, status,',
    'labels, log lines) passes a redactor of known secret forms first and is cut to 2,048 characters after. A redactor that fails',
    'yields `[redaction failed]`. A tenant’s own literals (`redact` of its policy) are taken out of output and results.',
    '',
  ].join('\n')}`
}
