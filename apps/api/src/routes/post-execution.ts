/** POST /v1/executions: enqueue, and wait for the ending when asked to. */
import { acceptedSchema, executionRequestSchema, isCofferdamError, resultSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { requireTenant } from '../authenticate.ts'
import { parseDurationMs, waitSchema } from '../duration.ts'
import { requireCallbackSecret } from '../callback-secret.ts'
import { enqueueAndWait } from '../enqueue-and-wait.ts'
import { rateLimitHeaders } from '../rate-limit-headers.ts'
import { executionHeadersSchema, withHeaders } from '../request-headers.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES } from '../wire-schemas.ts'

/** Adds the route. */
export function postExecution(app: App, context: RouteContext): void {
  app.post(
    '/executions',
    {
      schema: {
        operationId: 'createExecution',
        tags: ['executions'],
        summary: 'Enqueue an execution; with ?wait=30s also wait for its result.',
        description:
          'A caller that disconnects while it waits cancels nothing. `RateLimit` and `RateLimit-Policy` say what is left of ' +
          'the caps (draft-ietf-httpapi-ratelimit-headers); 429 comes with `Retry-After`.',
        headers: executionHeadersSchema,
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
      const timeoutMs = parseDurationMs(request.query.wait ?? '0') ?? 0
      const budgetNow = () => context.budgets.read(execution.tenant_id, execution.agent_id)
      // Asked for beside the enqueueing, unless the result will say it.
      const early = timeoutMs === 0 ? budgetNow() : null
      try {
        const { status, body } = await enqueueAndWait(context, request, reply, execution, timeoutMs)
        const caps = status === 200 ? body.caps : null
        void reply.headers(rateLimitHeaders(caps ?? (await (early ?? budgetNow())), context.now()))
        return reply.code(status).send(body)
      } catch (error) {
        if (isCofferdamError(error) && error.code === 'queue_full')
          void reply.headers(rateLimitHeaders(await (early ?? budgetNow()), context.now()))
        throw error
      }
    },
  )
}
