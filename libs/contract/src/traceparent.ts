/** W3C trace context (§3.2), which carries a trace through the queue and into the sandbox. */

/** The part of an OpenTelemetry span context that a traceparent carries. */
export interface RemoteSpan {
  traceId: string
  spanId: string
  /** Only the flag `sampled` (1) is defined. */
  traceFlags: number
}

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const ZEROS = /^0+$/

/** Parses a traceparent. Null when it is invalid or names no span. */
export function parseTraceparent(traceparent: string | null | undefined): RemoteSpan | null {
  const [found, version = '', traceId = '', spanId = '', flags = '', rest] =
    FORM.exec(traceparent ?? '') ?? []
  if (found === undefined || ZEROS.test(traceId) || ZEROS.test(spanId)) return null
  // Version ff is forbidden. Version 00 has no further fields, but later versions may.
  if (version === 'ff' || (version === '00' && rest !== undefined)) return null
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1 }
}

/** The traceparent of a span. Null when tracing is off (all zeros). */
export function formatTraceparent(span: RemoteSpan | undefined): string | null {
  if (span === undefined || ZEROS.test(span.traceId) || ZEROS.test(span.spanId)) return null
  return `00-${span.traceId}-${span.spanId}-0${span.traceFlags & 1}`
}
