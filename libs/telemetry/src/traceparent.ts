/** W3C traceparent to context and back: how a trace crosses the queue and enters the sandbox. */
import { isSpanContextValid, ROOT_CONTEXT, trace, type Context, type Span } from '@opentelemetry/api'

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/** A context whose active span is the remote one; the root context when there is none or it is no traceparent. */
export function contextFromTraceparent(traceparent: string | null | undefined): Context {
  const found = FORM.exec(traceparent ?? '')
  if (found === null) return ROOT_CONTEXT
  const [, version = '', traceId = '', spanId = '', flags = '', rest] = found
  // Version ff is forbidden; version 00 ends here, later ones may go on (W3C trace context §3.2.2).
  if (version === 'ff' || (version === '00' && rest !== undefined)) return ROOT_CONTEXT
  const spanContext = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true }
  return isSpanContextValid(spanContext) ? trace.setSpanContext(ROOT_CONTEXT, spanContext) : ROOT_CONTEXT
}

/** The traceparent of a span, for the queue record or a sandbox's TRACEPARENT; null when nothing traces. */
export function traceparentOf(span: Span | undefined): string | null {
  const spanContext = span?.spanContext()
  if (spanContext === undefined || !isSpanContextValid(spanContext)) return null
  return `00-${spanContext.traceId}-${spanContext.spanId}-0${(spanContext.traceFlags & 1).toString()}`
}
