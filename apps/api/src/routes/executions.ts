/** POST /v1/executions, GET /v1/executions/{id}, and POST /v1/executions/{id}/cancel. */
import {
  acceptedSchema,
  executionIdSchema,
  executionRequestSchema,
  executionStateSchema,
  resultSchema,
} from '@cofferdam/contract'
import { readCallbackStatus } from '@cofferdam/routines'
import { z } from 'zod'
import { tenantScope } from '../authenticate.ts'
import { readIfThere } from '../cells.ts'
import { enqueueForCaller, enqueueHeadersSchema, withHeaders } from '../enqueue-for-caller.ts'
import { findState, notFound } from '../find-execution.ts'
import { rateLimitHeaders } from '../rate-limit-headers.ts'
import { recordAction } from '../record-action.ts'
import type { App, RouteContext } from '../route-context.ts'
import { executionParams, FAILURES, labelSchema, waitSchema } from '../wire-schemas.ts'

const cancelledSchema = z.strictObject({
  execution_id: executionIdSchema.meta({ description: 'The execution.' }),
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
        headers: enqueueHeadersSchema,
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
      const { status, body } = await enqueueForCaller(context, request, reply, execution, request.query.wait)
      return reply.code(status).send(body)
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
      const callback = (await readIfThere(context.cells, state.execution_id, readCallbackStatus)) ?? null
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
        body: z
          .strictObject({
            reason: labelSchema.optional().meta({
              description: 'Why, for the result and the audit row. Default: none.',
              example: 'The user closed the tab.',
            }),
          })
          .optional(),
        response: { 200: cancelledSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { id } = request.params
      const { state } = await findState(context, tenantScope(request), id)
      if (state.status === 'ended') return { execution_id: id, status: 'ended' as const }
      const { reason } = request.body ?? {}
      const status = await context.producer.cancel(id, reason)
      if (status === 'not_found') throw notFound()
      const details = { execution_id: id, status, reason: reason ?? null }
      await recordAction(context, request, state.tenant_id, 'execution_cancelled', details)
      return { execution_id: id, status }
    },
  )
}
