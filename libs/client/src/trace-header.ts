/**
 * The trace context of the active OpenTelemetry span, without a dependency on its API. All copies of the API
 * of major version 1 share one global object and one key for spans under these symbols
 * (@opentelemetry/api: internal/global-utils.ts, context/context.ts, trace/context-utils.ts).
 */
const API = Symbol.for('opentelemetry.js.api.1')
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN')

interface OpenTelemetry {
  context?: { active(): { getValue(key: symbol): unknown } }
}
interface Span {
  spanContext(): { traceId: string; spanId: string; traceFlags: number }
}

/** The header `traceparent` (W3C Trace Context). Empty if no span is active. */
export function traceHeader(): Record<string, string> {
  const api = (globalThis as { [API]?: OpenTelemetry })[API]
  const span = api?.context?.active().getValue(SPAN) as Span | undefined
  if (span === undefined) return {}
  const { traceId, spanId, traceFlags } = span.spanContext()
  if (!/[1-9a-f]/.test(traceId) || !/[1-9a-f]/.test(spanId)) return {}
  return { traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}` }
}
