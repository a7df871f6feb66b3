/**
 * GET /v1/executions/{id}/trace: the waterfall of an execution, without a collector. What API and worker kept of it lies
 * in Redis for an hour (libs/queue/src/trace-shelf.ts), found by execution, never by trace id: a caller may name any trace.
 */
import { executionTraceSchema, traceSpanSchema, type TraceSpan } from '@cofferdam/contract'
import { readShelvedTrace } from '@cofferdam/queue'
import { ATTRIBUTES, EVENTS, spansInTreeOrder } from '@cofferdam/telemetry/api'
import { tenantScope } from '../authenticate.ts'
import { findState } from '../find-execution.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, executionParams } from '../wire-schemas.ts'

/** Adds the route. */
export function getTrace(app: App, context: RouteContext): void {
  app.get(
    '/executions/:id/trace',
    {
      schema: {
        operationId: 'getTrace',
        tags: ['executions'],
        summary: 'The spans of an execution, each before its children.',
        description:
          'Kept for an hour, for a sample where more than 64 executions end per second and worker, failures first; empty where nothing was kept. Keys of tenants get no messages of errors.',
        params: executionParams,
        response: { 200: executionTraceSchema, ...FAILURES },
      },
    },
    async (request) => {
      const tenant = tenantScope(request)
      const { state } = await findState(context, tenant, request.params.id)
      const kept = (await readShelvedTrace(context.redis, request.params.id)).flatMap((span) => {
        const parsed = traceSpanSchema.safeParse(span)
        return parsed.success ? [parsed.data] : []
      })
      const spans = spansInTreeOrder(tenant === null ? kept : kept.map(withoutMessages))
      return {
        execution_id: request.params.id,
        trace_id: spans[0]?.trace_id ?? state.result?.trace_id ?? null,
        spans,
      }
    },
  )
}

/** What was thrown inside may name our files and hosts: a tenant learns its class alone. */
function withoutMessages(span: TraceSpan): TraceSpan {
  return {
    ...span,
    status_message: null,
    events: span.events.map((event) =>
      event.name === EVENTS.exception
        ? { ...event, attributes: { [ATTRIBUTES.exceptionType]: event.attributes[ATTRIBUTES.exceptionType] } }
        : event,
    ),
  }
}
