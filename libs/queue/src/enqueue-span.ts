/** The producer's span and the traceparent that travels with an execution (W3C trace context, version 00). */
import {
  context,
  isSpanContextValid,
  SpanKind,
  SpanStatusCode,
  trace,
  type Context,
  type SpanContext,
} from '@opentelemetry/api'
import type { ExecutionRequest } from '@cofferdam/contract'

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
    'cofferdam.tenant_id': request.tenant_id,
    'cofferdam.agent_id': request.agent_id,
  }
  const span = tracer.startSpan(
    'cofferdam.enqueue',
    { kind: SpanKind.PRODUCER, attributes },
    contextOf(parent),
  )
  try {
    return await call(format(span.spanContext()) ?? parent ?? null)
  } catch (error) {
    span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.name : 'error' })
    throw error
  } finally {
    span.end()
  }
}

function contextOf(traceparent: string | undefined): Context {
  const parsed = traceparent === undefined ? null : parseTraceparent(traceparent)
  return parsed === null ? context.active() : trace.setSpanContext(context.active(), parsed)
}

/** Reads a traceparent; null when it is not one. */
export function parseTraceparent(traceparent: string): SpanContext | null {
  const match = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(traceparent)
  if (match?.[1] === undefined || match[2] === undefined || match[3] === undefined) return null
  const parsed = {
    traceId: match[1],
    spanId: match[2],
    traceFlags: Number.parseInt(match[3], 16),
    isRemote: true,
  }
  return isSpanContextValid(parsed) ? parsed : null
}

function format(span: SpanContext): string | null {
  if (!isSpanContextValid(span)) return null
  return `00-${span.traceId}-${span.spanId}-${span.traceFlags.toString(16).padStart(2, '0')}`
}
