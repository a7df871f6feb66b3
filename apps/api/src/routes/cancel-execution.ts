/** POST /v1/executions/{id}/cancel: a queued execution ends at once, a running one is asked to stop. */
import { executionIdSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { tenantScope } from '../authenticate.ts'
import { findState, notFound } from '../find-execution.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, executionParams, labelSchema } from '../wire-schemas.ts'

const cancelledSchema = z.strictObject({
  execution_id: executionIdSchema,
  status: z.enum(['cancelled', 'cancelling', 'ended']).meta({
    description:
      'cancelled: it will not run. cancelling: its worker was told. ended: it had ended before; nothing changed.',
  }),
})

/** Adds the route. */
export function cancelExecution(app: App, context: RouteContext): void {
  app.post(
    '/executions/:id/cancel',
    {
      schema: {
        operationId: 'cancelExecution',
        tags: ['executions'],
        summary: 'Cancel an execution. May be repeated.',
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
