/** W3C trace context (§3.2): how a trace crosses the queue and enters the sandbox. */

/** The part of an OpenTelemetry span context that travels. */
export interface RemoteSpan {
  traceId: string
  spanId: string
  /** Of the flags only `sampled` (1) is known. */
  traceFlags: number
}

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
const ZEROS = /^0+$/

/** Reads a traceparent; null when it is none, or names no span. */
export function parseTraceparent(traceparent: string | null | undefined): RemoteSpan | null {
  const [found, version = '', traceId = '', spanId = '', flags = '', rest] =
    FORM.exec(traceparent ?? '') ?? []
  if (found === undefined || ZEROS.test(traceId) || ZEROS.test(spanId)) return null
  // Version ff is forbidden; version 00 ends here, later ones may go on.
  if (version === 'ff' || (version === '00' && rest !== undefined)) return null
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1 }
}

/** The traceparent of a span; null when nothing traces (all zeros). */
export function formatTraceparent(span: RemoteSpan | undefined): string | null {
  if (span === undefined || ZEROS.test(span.traceId) || ZEROS.test(span.spanId)) return null
  return `00-${span.traceId}-${span.spanId}-0${span.traceFlags & 1}`
}
