/**
 * The server span of an enqueue (HTTP semantic conventions). Its parent is the caller's `traceparent`; what runs
 * inside, the queue's `send {lane}` above all, becomes its child, and so does the whole execution.
 */
import { ERRORS, isCofferdamError } from '@cofferdam/contract'
import { ATTRIBUTES, contextFromTraceparent, traceparentOf } from '@cofferdam/telemetry/api'
import { SpanKind, SpanStatusCode, context, trace, type Span } from '@opentelemetry/api'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { traceIdOf } from './trace-id.ts'

/** Runs `work` in a server span and gives it the span's traceparent; the caller's, or undefined, when nothing traces. */
export async function inServerSpan<T>(
  request: FastifyRequest,
  reply: FastifyReply,
  parent: string | undefined,
  work: (traceparent: string | undefined, span: Span) => Promise<T>,
): Promise<T> {
  const route = request.routeOptions.url ?? ''
  const attributes = {
    [ATTRIBUTES.httpMethod]: request.method,
    [ATTRIBUTES.httpRoute]: route,
    [ATTRIBUTES.urlPath]: request.url.split('?', 1)[0] ?? '',
    [ATTRIBUTES.urlScheme]: request.protocol,
  }
  const parentContext = contextFromTraceparent(parent)
  const tracer = trace.getTracer('@cofferdam/api')
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
    span.setAttributes({ [ATTRIBUTES.errorType]: code, [ATTRIBUTES.httpStatus]: ERRORS[code].http })
    // A refusal is the caller's failure, not this span's.
    if (ERRORS[code].http >= 500) span.setStatus({ code: SpanStatusCode.ERROR, message: code })
    throw error
  } finally {
    span.end()
  }
}
