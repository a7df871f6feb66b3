/** Converts between W3C traceparents and contexts, to pass a trace through the queue and into the sandbox. */
import { formatTraceparent, parseTraceparent } from '@cofferdam/contract'
import { ROOT_CONTEXT, trace, type Context, type Span } from '@opentelemetry/api'

/** A context with the remote span active. The root context for a missing or invalid traceparent. */
export function contextFromTraceparent(traceparent: string | null | undefined): Context {
  const remote = parseTraceparent(traceparent)
  return remote === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, { ...remote, isRemote: true })
}

/** The traceparent of a span. Null when tracing is off. */
export const traceparentOf = (span: Span | undefined): string | null => formatTraceparent(span?.spanContext())
