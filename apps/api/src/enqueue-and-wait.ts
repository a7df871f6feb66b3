/** Puts an execution into the queue on behalf of one HTTP request and, when asked to, waits for its ending. */
import {
  isCofferdamError,
  type Accepted,
  type ExecutionRequest,
  type ExecutionResult,
} from '@cofferdam/contract'
import { ATTRIBUTES } from '@cofferdam/telemetry/api'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { holderOf } from './authenticate.ts'
import { underBoundTemplate } from './bound-template.ts'
import { findEnded } from './find-execution.ts'
import { goneSignal } from './gone-signal.ts'
import type { RouteContext } from './route-context.ts'
import { inServerSpan } from './server-span.ts'

/**
 * Answers 200 with the result when it comes within `timeoutMs`. Otherwise 202 with `Location`: also when the caller
 * went away (which cancels nothing), the server drains, or too many requests wait already.
 * It runs under the template that the caller's key is bound to. Throws `forbidden`, `queue_full`,
 * `idempotency_conflict`, `queue_unavailable`.
 */
export async function enqueueAndWait(
  context: RouteContext,
  request: FastifyRequest,
  reply: FastifyReply,
  asked: ExecutionRequest,
  timeoutMs: number,
): Promise<{ status: 200; body: ExecutionResult } | { status: 202; body: Accepted }> {
  const execution = underBoundTemplate(request, asked)
  const place = timeoutMs > 0 ? context.waits.take(holderOf(request)) : null
  try {
    return await inServerSpan(request, reply, execution.traceparent, async (traceparent, span) => {
      const accepted = await context.producer.put(execution, {
        awaitReply: place !== null,
        ...(traceparent === undefined ? {} : { traceparent }),
      })
      span.setAttribute(ATTRIBUTES.executionId, accepted.execution_id)
      void reply.header('location', `/v1/executions/${accepted.execution_id}`)
      const body = place === null ? null : await waitFor(context, reply, execution, accepted, timeoutMs)
      const status = body === null ? 202 : 200
      span.setAttribute(ATTRIBUTES.httpStatus, status)
      if (body !== null) span.setAttribute(ATTRIBUTES.ending, body.ending)
      return body === null ? { status: 202, body: accepted } : { status: 200, body }
    })
  } finally {
    place?.release()
  }
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
    // An idempotency key outlives the result in Redis; the store still has it.
    if (!isCofferdamError(error) || error.code !== 'not_found' || !accepted.deduplicated) throw error
    return (await findEnded(context, execution.tenant_id, accepted.execution_id))?.result ?? null
  }
}
