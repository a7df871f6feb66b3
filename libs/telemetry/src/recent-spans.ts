/**
 * Keeps the last spans per trace, so that the API can show a waterfall without a collector. Spans are
 * redacted when they are read, because at a thousand executions a second almost none is ever read.
 */
import { SpanKind, SpanStatusCode, type Attributes, type HrTime } from '@opentelemetry/api'
import type { ReadableSpan, SpanProcessor } from '@opentelemetry/sdk-trace'
import type { GuardText } from './guard-text.ts'
import { redactSpan } from './redact-span.ts'
import { spansInTreeOrder } from './tree-order.ts'

/** A span as the dashboard shows it: redacted, and serialisable as JSON. */
export interface RecentSpan {
  trace_id: string
  span_id: string
  /** Null for the root span. May name a span of another process. */
  parent_span_id: string | null
  name: string
  kind: 'internal' | 'server' | 'client' | 'producer' | 'consumer'
  service: string
  /** Milliseconds since the epoch. They are whole, because the SDK takes them from Date.now(). */
  start_ms: number
  duration_ms: number
  status: 'unset' | 'ok' | 'error'
  status_message: string | null
  attributes: Attributes
  events: { name: string; at_ms: number; attributes: Attributes }[]
}

export interface RecentSpans extends SpanProcessor {
  /** The ended spans of a trace, parents before children, siblings by age. Empty for an unknown trace. */
  read(traceId: string): RecentSpan[]
}

/** About 12 MB: 8,192 spans of 1.5 KB, or a thousand executions. Whole traces are dropped, oldest first. */
const RECENT_SPANS = 8192

/** Most spans per trace. An execution has eight. */
const SPANS_PER_TRACE = 128

const KINDS: Record<SpanKind, RecentSpan['kind']> = {
  [SpanKind.INTERNAL]: 'internal',
  [SpanKind.SERVER]: 'server',
  [SpanKind.CLIENT]: 'client',
  [SpanKind.PRODUCER]: 'producer',
  [SpanKind.CONSUMER]: 'consumer',
}
const STATUSES: Record<SpanStatusCode, RecentSpan['status']> = {
  [SpanStatusCode.UNSET]: 'unset',
  [SpanStatusCode.OK]: 'ok',
  [SpanStatusCode.ERROR]: 'error',
}

/** Creates the buffer of a service, with at most `maxSpans` over all traces. */
export function createRecentSpans(
  service: string,
  guard: GuardText,
  maxSpans: number = RECENT_SPANS,
): RecentSpans {
  const traces = new Map<string, ReadableSpan[]>()
  let kept = 0

  function forgetOldest(): void {
    for (const [traceId, spans] of traces) {
      if (kept <= maxSpans) return
      traces.delete(traceId)
      kept -= spans.length
    }
  }

  return {
    onStart() {},
    onEnd(span) {
      const { traceId } = span.spanContext()
      const spans = traces.get(traceId)
      if (spans === undefined) traces.set(traceId, [span])
      else if (spans.length < SPANS_PER_TRACE) spans.push(span)
      else return
      kept++
      if (kept > maxSpans) forgetOldest()
    },
    read(traceId) {
      return showSpans(traces.get(traceId) ?? [], service, guard)
    },
    forceFlush: async () => {},
    async shutdown() {
      traces.clear()
      kept = 0
    },
  }
}

export const showSpans = (spans: readonly ReadableSpan[], service: string, guard: GuardText): RecentSpan[] =>
  spansInTreeOrder(spans.map((span) => shown(redactSpan(span, guard), service)))

const toMs = ([seconds, nanos]: HrTime): number => seconds * 1000 + nanos / 1e6

function shown(span: ReadableSpan, service: string): RecentSpan {
  const { traceId, spanId } = span.spanContext()
  return {
    trace_id: traceId,
    span_id: spanId,
    parent_span_id: span.parentSpanContext?.spanId ?? null,
    name: span.name,
    kind: KINDS[span.kind],
    service,
    start_ms: toMs(span.startTime),
    duration_ms: toMs(span.duration),
    status: STATUSES[span.status.code],
    status_message: span.status.message ?? null,
    attributes: span.attributes,
    events: span.events.map((event) => ({
      name: event.name,
      at_ms: toMs(event.time),
      attributes: event.attributes ?? {},
    })),
  }
}
