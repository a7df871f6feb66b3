/** POST /v1/executions, GET /v1/executions/{id}, and POST /v1/executions/{id}/cancel. */
import {
  acceptedSchema,
  CofferdamError,
  executionIdSchema,
  executionRequestSchema,
  executionStateSchema,
  isCofferdamError,
  resultSchema,
  type ExecutionRequest,
} from '@cofferdam/contract'
import { readCallbackStatus } from '@cofferdam/routines'
import { z } from 'zod'
import { requireTenant, tenantScope } from '../authenticate.ts'
import { enqueueAndWait } from '../enqueue-and-wait.ts'
import { findState, notFound } from '../find-execution.ts'
import { rateLimitHeaders } from '../rate-limit-headers.ts'
import type { App, RouteContext } from '../route-context.ts'
import { readTraceparent } from '../trace-id.ts'
import { executionParams, FAILURES, labelSchema, waitSchema } from '../wire-schemas.ts'
import { requireCallbackSecret } from './tenant-credentials.ts'

/** Headers that correspond to fields of the body. */
const headersSchema = z.looseObject({
  'idempotency-key': z
    .string()
    .min(1)
    .max(255)
    .optional()
    .meta({ description: 'The same as idempotency_key of the body.' }),
  // Not validated, because a malformed traceparent is ignored (W3C trace-context §3.2).
  traceparent: z
    .string()
    .optional()
    .meta({ description: 'W3C trace context; the same as traceparent of the body.' }),
})

const cancelledSchema = z.strictObject({
  execution_id: executionIdSchema,
  status: z.enum(['cancelled', 'cancelling', 'ended']).meta({
    description:
      'cancelled: it will not run. cancelling: its worker was told to stop it. ended: it had already ' +
      'ended; nothing changed.',
  }),
})

export function executions(app: App, context: RouteContext): void {
  app.post(
    '/executions',
    {
      schema: {
        operationId: 'createExecution',
        tags: ['executions'],
        summary: 'Enqueue an execution; with ?wait=30s also wait for its result.',
        description:
          'A caller that disconnects while it waits cancels nothing. `RateLimit` and `RateLimit-Policy` ' +
          'say what is left of ' +
          'the caps (draft-ietf-httpapi-ratelimit-headers); 429 comes with `Retry-After`.',
        headers: headersSchema,
        body: executionRequestSchema,
        querystring: z.strictObject({ wait: waitSchema.optional() }),
        response: {
          200: resultSchema.describe('It ended within the wait.'),
          202: acceptedSchema.describe('It was accepted; `Location` names it.'),
          ...FAILURES,
        },
      },
    },
    async (request, reply) => {
      const execution = withHeaders(request.body, request.headers)
      requireTenant(request, execution.tenant_id)
      if (execution.callback_url !== undefined) await requireCallbackSecret(context, execution.tenant_id)
      const timeoutMs = request.query.wait ?? 0
      const budgetNow = () => context.budgets.read(execution.tenant_id, execution.agent_id)
      // Read while the execution is enqueued, unless the result will contain the budget.
      const early = timeoutMs === 0 ? budgetNow() : null
      try {
        const { status, body } = await enqueueAndWait(context, request, reply, execution, timeoutMs)
        const caps = status === 200 ? body.caps : null
        void reply.headers(rateLimitHeaders(caps ?? (await (early ?? budgetNow())), context.now()))
        return await reply.code(status).send(body)
      } catch (error) {
        if (isCofferdamError(error) && error.code === 'queue_full')
          void reply.headers(rateLimitHeaders(await (early ?? budgetNow()), context.now()))
        throw error
      }
    },
  )

  app.get(
    '/executions/:id',
    {
      schema: {
        operationId: 'getExecution',
        tags: ['executions'],
        summary: 'The state of an execution, with its result once it ended.',
        params: executionParams,
        response: { 200: executionStateSchema, ...FAILURES },
      },
    },
    async (request, reply) => {
      const { state } = await findState(context, tenantScope(request), request.params.id)
      const callback = await readCallbackStatus(context.redis, request.params.id)
      if (state.result !== null) {
        const budget = await context.budgets.read(state.tenant_id, state.agent_id)
        void reply.headers(rateLimitHeaders(budget, context.now()))
      }
      return callback === null ? state : { ...state, callback }
    },
  )

  app.post(
    '/executions/:id/cancel',
    {
      schema: {
        operationId: 'cancelExecution',
        tags: ['executions'],
        summary: 'Cancel an execution. May be repeated.',
        description: 'A queued execution ends at once; a running one is told to stop.',
        params: executionParams,
        body: z.strictObject({ reason: labelSchema.optional() }).optional(),
        response: { 200: cancelledSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { id } = request.params
      const { state } = await findState(context, tenantScope(request), id)
      if (state.status === 'ended') return { execution_id: id, status: 'ended' as const }
      const status = await context.producer.cancel(id, request.body?.reason)
      if (status === 'not_found') throw notFound()
      return { execution_id: id, status }
    },
  )
}

/** Applies the headers if the body has no such field. Throws `conflict` when the idempotency keys differ. */
function withHeaders(request: ExecutionRequest, headers: z.output<typeof headersSchema>): ExecutionRequest {
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
