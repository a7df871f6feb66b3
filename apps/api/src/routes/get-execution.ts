/** GET /v1/executions/{id}: live from the queue, else from the store. */
import { executionStateSchema } from '@cofferdam/contract'
import { readCallbackStatus } from '@cofferdam/routines'
import { tenantScope } from '../authenticate.ts'
import { findState } from '../find-execution.ts'
import { rateLimitHeaders } from '../rate-limit-headers.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, executionParams } from '../wire-schemas.ts'

/** Adds the route. */
export function getExecution(app: App, context: RouteContext): void {
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
}
