/** Enqueues an execution on behalf of one HTTP request and, if asked to, waits for its ending. */
import {
  type Accepted,
  ERRORS,
  type ExecutionRequest,
  type ExecutionResult,
  isCofferdamError,
} from '@cofferdam/contract'
import { ATTRIBUTES, contextFromTraceparent, traceparentOf } from '@cofferdam/telemetry/api'
import { context, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { holderOf, underBoundTemplate } from './authenticate.ts'
import { findEnded } from './find-execution.ts'
import type { RouteContext } from './route-context.ts'
import { goneSignal } from './streams.ts'
import { traceIdOf } from './trace-id.ts'

/**
 * Answers 200 with the result if it arrives within `timeoutMs`, else 202 with `Location`. The answer is also
 * 202 when the caller disconnected (which cancels nothing), when the server drains, or when too many requests
 * wait already. `onAccepted` is called before the wait. The template that the caller's key is bound to
 * applies. Throws `forbidden`, `queue_full`, `idempotency_conflict`, `queue_unavailable`.
 */
export async function enqueueAndWait(
  context: RouteContext,
  request: FastifyRequest,
  reply: FastifyReply,
  asked: ExecutionRequest,
  timeoutMs: number,
  onAccepted: (accepted: Accepted) => void = () => undefined,
): Promise<{ status: 200; body: ExecutionResult } | { status: 202; body: Accepted }> {
  const execution = underBoundTemplate(request, asked)
  using slot = timeoutMs > 0 ? context.waits.take(holderOf(request)) : null
  return await inServerSpan(request, reply, execution.traceparent, async (traceparent, span) => {
    const accepted = await context.producer.put(execution, {
      awaitReply: slot !== null,
      ...(traceparent === undefined ? {} : { traceparent }),
    })
    onAccepted(accepted)
    span.setAttribute(ATTRIBUTES.executionId, accepted.execution_id)
    void reply.header('location', `/v1/executions/${accepted.execution_id}`)
    const body = slot === null ? null : await waitFor(context, reply, execution, accepted, timeoutMs)
    const status = body === null ? 202 : 200
    span.setAttribute(ATTRIBUTES.httpStatus, status)
    if (body !== null) span.setAttribute(ATTRIBUTES.ending, body.ending)
    return body === null ? { status: 202, body: accepted } : { status: 200, body }
  })
}

async function waitFor(
  context: RouteContext,
  reply: FastifyReply,
  execution: ExecutionRequest,
  accepted: Accepted,
  timeoutMs: number,
): Promise<ExecutionResult | null> {
  using gone = goneSignal(reply, context.draining)
  try {
    return await context.producer.wait(accepted.execution_id, { timeoutMs, signal: gone.signal })
  } catch (error) {
    if (gone.signal.aborted) return null
    // An idempotency key outlives the result in Redis. The store still has the result.
    if (!isCofferdamError(error) || error.code !== 'not_found' || !accepted.deduplicated) throw error
    return (await findEnded(context, execution.tenant_id, accepted.execution_id))?.result ?? null
  }
}

/**
 * Runs `work` in a server span (HTTP semantic conventions) whose parent is the caller's `traceparent`.
 * Passes on the span's own traceparent, or `parent` without tracing.
 */
async function inServerSpan<T>(
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
    // A refusal is the caller's mistake, not a failure of this span.
    if (ERRORS[code].http >= 500) span.setStatus({ code: SpanStatusCode.ERROR, message: code })
    throw error
  } finally {
    span.end()
  }
}
