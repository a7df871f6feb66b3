/** The producer's span and the traceparent that travels with an execution (W3C trace context, version 00). */
import { context, SpanKind, SpanStatusCode, trace, type Context } from '@opentelemetry/api'
import {
  formatTraceparent,
  isCofferdamError,
  parseTraceparent,
  type ExecutionRequest,
} from '@cofferdam/contract'

/**
 * Runs `call` inside a span `send {lane}` and passes it the traceparent for the record: that of the span, or
 * the caller's own when no tracer is registered, or null. The parent is `parent`, or else the active span.
 */
export async function withEnqueueSpan<T>(
  request: ExecutionRequest,
  parent: string | undefined,
  call: (traceparent: string | null) => Promise<T>,
): Promise<T> {
  const tracer = trace.getTracer('@cofferdam/queue')
  const attributes = {
    'messaging.system': 'bullmq',
    'messaging.operation.name': 'send',
    'messaging.operation.type': 'send',
    'messaging.destination.name': request.lane,
    'cofferdam.tenant.id': request.tenant_id,
    'cofferdam.agent.id': request.agent_id,
  }
  const span = tracer.startSpan(
    `send ${request.lane}`,
    { kind: SpanKind.PRODUCER, attributes },
    contextOf(parent),
  )
  try {
    return await call(formatTraceparent(span.spanContext()) ?? parent ?? null)
  } catch (error) {
    const type = isCofferdamError(error) ? error.code : error instanceof Error ? error.name : 'error'
    span.setAttribute('error.type', type)
    span.setStatus({ code: SpanStatusCode.ERROR, message: type })
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
