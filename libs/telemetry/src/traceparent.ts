/** W3C traceparent to context and back: how a trace crosses the queue and enters the sandbox. */
import { formatTraceparent, parseTraceparent } from '@cofferdam/contract'
import { ROOT_CONTEXT, trace, type Context, type Span } from '@opentelemetry/api'

/** A context whose active span is the remote one; the root context when there is none or it is no traceparent. */
export function contextFromTraceparent(traceparent: string | null | undefined): Context {
  const remote = parseTraceparent(traceparent)
  return remote === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, { ...remote, isRemote: true })
}

/** The traceparent of a span, for the queue record or a sandbox's TRACEPARENT; null when nothing traces. */
export const traceparentOf = (span: Span | undefined): string | null => formatTraceparent(span?.spanContext())
