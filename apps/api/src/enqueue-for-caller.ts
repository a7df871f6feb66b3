/** What every route that enqueues one execution does: headers, rights, budget headers, and the wait. */
import {
  CofferdamError,
  isCofferdamError,
  type Accepted,
  type ExecutionRequest,
  type ExecutionResult,
} from '@cofferdam/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { requireTenant } from './authenticate.ts'
import { enqueueAndWait } from './enqueue-and-wait.ts'
import { rateLimitHeaders } from './rate-limit-headers.ts'
import type { RouteContext } from './route-context.ts'
import { requireCallbackSecret } from './routes/tenant-credentials.ts'
import { readTraceparent } from './trace-id.ts'

/** Headers that correspond to fields of the request. */
export const enqueueHeadersSchema = z.looseObject({
  'idempotency-key': z.string().min(1).max(255).optional().meta({
    description:
      'Means the same as idempotency_key of the body. 409 if the two differ. Default: the one in the body.',
    example: 'order-4711',
  }),
  // Not validated, because a malformed traceparent is ignored (W3C trace-context §3.2).
  traceparent: z.string().optional().meta({
    description: 'W3C trace context, as traceparent of the body, which wins. Default: a new trace.',
    example: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  }),
})

/**
 * Fills idempotency_key and traceparent from the headers if the request lacks them. Throws `conflict` when
 * the idempotency keys differ.
 */
export function withHeaders(
  request: ExecutionRequest,
  headers: z.output<typeof enqueueHeadersSchema>,
): ExecutionRequest {
  const key = headers['idempotency-key']
  if (key !== undefined && request.idempotency_key !== undefined && key !== request.idempotency_key) {
    throw new CofferdamError('conflict', 'The Idempotency-Key header and idempotency_key of the body differ.')
  }
  const traceparent = request.traceparent ?? readTraceparent(headers.traceparent)
  return {
    ...request,
    ...(key === undefined ? {} : { idempotency_key: key }),
    ...(traceparent === null ? {} : { traceparent }),
  }
}

/**
 * Enqueues `execution` for the caller and waits up to `waitMs`. Sets the rate limit headers. Throws
 * `forbidden`, `invalid_request` without a secret for callbacks, and what `enqueueAndWait` throws.
 */
export async function enqueueForCaller(
  context: RouteContext,
  request: FastifyRequest,
  reply: FastifyReply,
  execution: ExecutionRequest,
  waitMs = 0,
  onAccepted?: (accepted: Accepted) => void,
): Promise<{ status: 200; body: ExecutionResult } | { status: 202; body: Accepted }> {
  requireTenant(request, execution.tenant_id)
  if (execution.callback_url !== undefined) await requireCallbackSecret(context, execution.tenant_id)
  const budgetNow = () => context.budgets.read(execution.tenant_id, execution.agent_id)
  // Reads the budget while the execution is enqueued. With a wait, the result probably contains the budget.
  const early = waitMs === 0 ? budgetNow() : null
  try {
    const answer = await enqueueAndWait(context, request, reply, execution, waitMs, onAccepted)
    const caps = answer.status === 200 ? answer.body.caps : null
    void reply.headers(rateLimitHeaders(caps ?? (await (early ?? budgetNow())), context.now()))
    return answer
  } catch (error) {
    if (isCofferdamError(error) && error.code === 'queue_full')
      void reply.headers(rateLimitHeaders(await (early ?? budgetNow()), context.now()))
    throw error
  }
}
