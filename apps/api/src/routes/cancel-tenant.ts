/** POST /v1/tenants/{id}/cancel: cancels what a tenant, or one of its agents, has waiting or running. */
import { nameSchema } from '@cofferdam/contract'
import { z } from 'zod'
import type { App, RouteContext } from '../route-context.ts'
import { cursorQuery, FAILURES, labelSchema, nextCursorSchema, tenantParams } from '../wire-schemas.ts'

/** Pages are cancelled for this long before the caller is answered: well below what proxies wait. */
const BUDGET_MS = 5000

const bodySchema = z.strictObject({
  agent_id: nameSchema.optional(),
  state: z
    .enum(['waiting', 'running', 'all'])
    .meta({ description: 'waiting: delayed and queued ones. running: those that a worker has.' }),
  reason: labelSchema.optional(),
  cursor: cursorQuery.optional(),
})

const answerSchema = z.strictObject({
  cancelled: z.int().min(0).meta({ description: 'Ended by this call; they will not run.' }),
  cancelling: z.int().min(0).meta({ description: 'Running ones whose workers were told.' }),
  next_cursor: nextCursorSchema,
})

/** Adds the route. */
export function cancelTenant(app: App, context: RouteContext): void {
  app.post(
    '/tenants/:id/cancel',
    {
      config: { admin: true },
      schema: {
        operationId: 'cancelTenant',
        tags: ['tenants'],
        summary: 'Cancel what a tenant or one of its agents has waiting or running. Admin.',
        description:
          `Works for about ${BUDGET_MS / 1000} s, newest first; call again with next_cursor until it is null. What is enqueued ` +
          'after the first call is not touched: set a cap to 0 before, so that nothing new starts. May be repeated.',
        params: tenantParams,
        body: bodySchema,
        response: { 200: answerSchema, ...FAILURES },
      },
    },
    async (request) => {
      const { agent_id, state, reason = 'cancelled by an operator', cursor } = request.body
      const untilMs = context.now() + BUDGET_MS
      const total = { cancelled: 0, cancelling: 0 }
      const of = { list: 'cancel', tenantId: request.params.id }
      let next: string | null = (await context.cursors.open(of, cursor)) ?? null
      do {
        const page = await context.producer.cancelTenant(request.params.id, {
          state,
          reason,
          ...(agent_id === undefined ? {} : { agentId: agent_id }),
          ...(next === null ? {} : { before: next }),
        })
        total.cancelled += page.cancelled
        total.cancelling += page.cancelling
        next = page.next
      } while (next !== null && context.now() < untilMs && !context.draining.aborted)
      return { ...total, next_cursor: await context.cursors.seal(of, next) }
    },
  )
}
