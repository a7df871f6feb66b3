/** GET /v1/executions/{id}/why: why it waits, was refused, ran where it ran, and ended as it did. */
import { executionWhySchema, isCofferdamError, type ExecutionId } from '@cofferdam/contract'
import { tenantScope } from '../authenticate.ts'
import { findEnded, findState } from '../find-execution.ts'
import type { App, RouteContext } from '../route-context.ts'
import { endedFacts, type Ended } from '../why/ended.ts'
import { waitingFact } from '../why/waiting.ts'
import { executionParams, FAILURES } from '../wire-schemas.ts'

/** Enough to find who last set a cap. */
const EVENTS_LOOKED_AT = 100

export function executionWhy(app: App, context: RouteContext): void {
  app.get(
    '/executions/:id/why',
    {
      schema: {
        operationId: 'explainExecution',
        tags: ['executions'],
        summary: 'Why an execution waits, was refused, ran where it ran, and ended as it did.',
        description:
          'While it waits, the facts are the scheduler’s state at this moment, the most decisive first.',
        params: executionParams,
        response: { 200: executionWhySchema, ...FAILURES },
      },
    },
    async (request) => {
      const tenant = tenantScope(request)
      const { id } = request.params
      const { state } = await findState(context, tenant, id)
      const { execution_id, status } = state
      if (state.result !== null) {
        const ended = { ...(await recordsOf(context, tenant, id, state.tenant_id)), result: state.result }
        return { execution_id, status, facts: endedFacts(ended) }
      }
      const waiting = (await context.producer.whyWaiting(id)) ?? []
      return { execution_id, status, facts: waiting.map((fact) => waitingFact(fact, tenant === null)) }
    },
  )
}

/** What Postgres knows. Without it the result alone has to explain. */
async function recordsOf(
  context: RouteContext,
  tenant: string | null,
  id: ExecutionId,
  tenantId: string,
): Promise<Omit<Ended, 'result'>> {
  try {
    const [ended, events] = await Promise.all([
      findEnded(context, tenant, id),
      context.store.tenants.events(tenantId, { limit: EVENTS_LOOKED_AT, types: ['caps'] }),
    ])
    return { row: ended?.last ?? null, events }
  } catch (error) {
    if (isCofferdamError(error) && error.code === 'store_unavailable') return { row: null, events: [] }
    throw error
  }
}
