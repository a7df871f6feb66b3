/** Generates docs/reference/telemetry.md from the catalog of libs/telemetry. */
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
import { code, table } from './page-table.ts'

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

export function telemetryPage(made: string): string {
  return `${[
    made,
    '# Telemetry',
    '',
    'This page lists every span, event, attribute, metric and log record. The names are stable: a name',
    'changes only with a major version. To send traces and metrics to a collector, set',
    '`OTEL_EXPORTER_OTLP_ENDPOINT`.',
    '',
    '## Traces',
    '',
    'Each execution has one trace. Its parent is the `traceparent` of the request (W3C trace context).',
    'Without one, the API begins the trace.',
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
    'A process keeps the spans of an attempt (worker) or of a request (API) until the ending is known. Then',
    'it sends all of them or none:',
    '',
    '| spans of | are sent |',
    '| --- | --- |',
    '| an error, an ending other than `ok` (also a refusal), a deadline that passed | always |',
    '| an execution or request that took or waited `COFFERDAM_TRACE_SLOW_MS` (10 s) or longer | always |',
    '| anything else | as a share: `COFFERDAM_TRACE_SAMPLE_RATIO` (all) |',
    '',
    'A worker can also take the share from `telemetry.sample_ratio` in `cofferdam.config.yaml`. The share is',
    'chosen by trace ID, so every process keeps the same traces. A process holds at most 8,192 spans. Beyond',
    'that, it sends the oldest without waiting for the ending. It holds at most 128 spans of one attempt,',
    'and decides about further ones by trace ID alone.',
    '',
    '- If nobody waits for an execution, the API answers before it has ended. With a share below 1, the',
    '  API’s span of a failed execution can be missing while its worker’s spans are there. To get whole',
    '  traces, send everything and let a collector decide (`tail_sampling`).',
    '- If a `traceparent` ends in `-00`, nothing is recorded, not even failures.',
    '',
    '### Without a collector',
    '',
    '`GET /v1/executions/{id}/trace` and `cofferdam status ID --trace` show the spans that API and worker',
    'keep in Redis: for an hour, and for 2,000 executions at most. Each process stores the spans of at most',
    '64 requests or attempts a second, failures first. It stores none with more than 16 KiB of spans.',
    '',
    '## Metrics',
    '',
    'Metrics are available in three ways:',
    '',
    '- at `/metrics` of the API, from the same machine or with an admin key',
    '- at `/metrics` on `COFFERDAM_METRICS_PORT` of API, worker and dispatcher, without a key',
    '- over OTLP, if `OTEL_EXPORTER_OTLP_ENDPOINT` is set',
    '',
    'Figures of queue and fleet come from Redis, and every API reports the same ones. Take their `max`, not',
    'their sum. No label names a tenant, agent or execution.',
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
    '### From a metric to its traces',
    '',
    'The buckets of `cofferdam.execution.wait` and `.duration` carry exemplars: the last trace in each',
    'bucket that was sent to the collector. `/metrics` has them in the OpenMetrics format, which Prometheus',
    'asks for with `Accept: application/openmetrics-text`. Start Prometheus with',
    '`--enable-feature=exemplar-storage`. The compose file does that, and its Grafana opens exemplars in',
    'Jaeger. Metrics over OTLP carry none, because the SDK (sdk-metrics 3.1) records none. Every result and',
    'audit row has its `trace_id`.',
    '',
    '## Attributes',
    '',
    'Labels in Prometheus have the same names with `_` instead of `.`.',
    '',
    ...table(
      ['attribute', 'what'],
      Object.entries(ATTRIBUTE_FACTS).map(([name, about]) => [code(name), about]),
    ),
    '## Log records',
    '',
    'Log records are JSON lines on stderr. Each has `level` (10 trace … 60 fatal), `time`, `service`, `pid`',
    'and `msg`, and the facts of the record (`err`, `execution_id`, `worker_id`, `backend`, …). Inside a',
    'span, it also has `trace_id` and `span_id`. `msg` is the stable name.',
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
    'Programs, their output, environment and stdin are in no span, metric or log line. Every text that',
    'leaves (names, attributes, events, status, labels, log lines) first passes a redactor of known secret',
    'forms, and is then cut to 2,048 characters. If the redactor fails, the text becomes',
    '`[redaction failed]`. Output and results are also cleared of a tenant’s own literals (`redact` of its',
    'policy).',
    '',
  ].join('\n')}`
}
