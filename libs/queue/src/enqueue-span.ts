/** The producer's span and the traceparent that travels with an execution (W3C trace context, version 00). */
import { context, SpanKind, SpanStatusCode, trace, type Context } from '@opentelemetry/api'
import { formatTraceparent, parseTraceparent, type ExecutionRequest } from '@cofferdam/contract'

/**
 * Runs `call` inside a span `cofferdam.enqueue` and hands it the traceparent for the record: that of the span, or
 * the caller's own when no tracer is registered, or null. The parent is `parent` when given, else the active span.
 */
export async function withEnqueueSpan<T>(
  request: ExecutionRequest,
  parent: string | undefined,
  call: (traceparent: string | null) => Promise<T>,
): Promise<T> {
  const tracer = trace.getTracer('@cofferdam/queue')
  const attributes = {
    'messaging.system': 'bullmq',
    'messaging.operation.type': 'send',
    'messaging.destination.name': request.lane,
    'cofferdam.tenant.id': request.tenant_id,
    'cofferdam.agent.id': request.agent_id,
  }
  const span = tracer.startSpan(
    'cofferdam.enqueue',
    { kind: SpanKind.PRODUCER, attributes },
    contextOf(parent),
  )
  try {
    return await call(formatTraceparent(span.spanContext()) ?? parent ?? null)
  } catch (error) {
    span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.name : 'error' })
    throw error
  } finally {
    span.end()
  }
}

function contextOf(traceparent: string | undefined): Context {
  const remote = parseTraceparent(traceparent)
  return remote === null
    ? context.active()
    : trace.setSpanContext(context.active(), { ...remote, isRemote: true })
}
