/**
 * The server span of an enqueue (HTTP semantic conventions). Its parent is the caller's `traceparent`; what runs
 * inside, the queue's `cofferdam.enqueue` above all, becomes its child, and so does the whole execution.
 */
import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  context,
  trace,
  type Context,
  type Span,
} from '@opentelemetry/api'
import { isCofferdamError, ERRORS } from '@cofferdam/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { traceIdOf } from './trace-id.ts'

const tracer = trace.getTracer('@cofferdam/api')

/** Runs `work` in a server span and gives it the span's traceparent (the caller's, or undefined, when nothing is recorded). */
export async function inServerSpan<T>(
  request: FastifyRequest,
  reply: FastifyReply,
  parent: string | undefined,
  work: (traceparent: string | undefined, span: Span) => Promise<T>,
): Promise<T> {
  if (parent !== undefined) request.traceId = traceIdOf(parent)
  const route = request.routeOptions.url ?? request.url
  const attributes = {
    'http.request.method': request.method,
    'http.route': route,
    'url.path': request.url.split('?', 1)[0] ?? '',
    'url.scheme': 'http',
  }
  const parentContext = parent === undefined ? ROOT_CONTEXT : remoteContext(parent)
  const span = tracer.startSpan(
    `${request.method} ${route}`,
    { kind: SpanKind.SERVER, attributes },
    parentContext,
  )
  const own = traceparentOf(span) ?? parent
  if (own !== undefined) request.traceId = traceIdOf(own)
  void reply.header('x-trace-id', request.traceId)
  try {
    return await context.with(trace.setSpan(parentContext, span), () => work(own, span))
  } catch (error) {
    const code = isCofferdamError(error) ? error.code : 'internal'
    const { http } = ERRORS[code]
    span.setAttributes({ 'error.type': code, 'http.response.status_code': http })
    if (http >= 500) span.setStatus({ code: SpanStatusCode.ERROR, message: code })
    throw error
  } finally {
    span.end()
  }
}

function remoteContext(traceparent: string): Context {
  const [, traceId = '', spanId = '', flags = '00'] = traceparent.split('-')
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
  })
}

/** Undefined when no SDK is registered and the span is a no-op. */
function traceparentOf(span: Span): string | undefined {
  const { traceId, spanId, traceFlags } = span.spanContext()
  if (/^0+$/.test(traceId) || !span.isRecording()) return undefined
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
}
