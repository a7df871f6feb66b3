/** GET /v1/executions/{id}/events and /trace: what happens to an execution while it runs, and afterwards. */
import {
  executionEventSchema,
  executionTraceSchema,
  traceSpanSchema,
  type ExecutionResult,
  type StoredEvent,
  type TraceSpan,
} from '@cofferdam/contract'
import { readShelvedTrace } from '@cofferdam/queue'
import { ATTRIBUTES, EVENTS, spansInTreeOrder } from '@cofferdam/telemetry/api'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { holderOf, tenantScope } from '../authenticate.ts'
import { readIfThere } from '../cells.ts'
import { findState } from '../find-execution.ts'
import type { App, RouteContext } from '../route-context.ts'
import { goneSignal, openEventStream, takeOver } from '../streams.ts'
import { executionParams, FAILURES, namedFields } from '../wire-schemas.ts'

/** The largest sequence number of a Redis stream ID: an ID made here never equals one of Redis. */
const OWN_SEQUENCE = '18446744073709551615'

const eventIdSchema = z
  .string()
  .regex(/^\d{1,15}-\d{1,20}$/, 'expected the id of an event, such as 1732111200000-0')
  .meta({
    description:
      'Only events after this one. If both are given, the header Last-Event-ID wins over the parameter ' +
      'after. Default: from the start.',
    example: '1732111200000-0',
  })

export function executionEvents(app: App, context: RouteContext): void {
  app.get(
    '/executions/:id/events',
    {
      exposeHeadRoute: false,
      schema: {
        operationId: 'streamEvents',
        tags: ['executions'],
        summary: 'Live events as server-sent events, resumable by Last-Event-ID.',
        params: executionParams,
        querystring: z.strictObject({ after: eventIdSchema.optional() }),
        headers: z.looseObject({ 'last-event-id': eventIdSchema.optional() }),
        response: {
          200: {
            description: 'Each message has `id`, `event` (the type) and `data` (the event as JSON).',
            content: { 'text/event-stream': { schema: executionEventSchema } },
          },
          204: z.undefined().describe('It ended, and the caller has seen everything.'),
          ...FAILURES,
        },
      },
    },
    async (request, reply) => {
      const { id } = request.params
      const after = request.headers['last-event-id'] ?? request.query.after
      const { state, live } = await findState(context, tenantScope(request), id)
      using _slot = context.streams.require(holderOf(request))
      using gone = goneSignal(reply, context.draining)
      const { signal } = gone
      const events = live
        ? context.producer.events(id, { signal, ...namedFields({ after }) })
        : endedEvent(state.result, after)
      const iterator = events[Symbol.asyncIterator]()
      // The event of an ended execution is read at once, so before the headers are sent we know whether any
      // event is left.
      const first = state.status === 'ended' ? await iterator.next() : null
      // 204 tells EventSource not to reconnect.
      if (first?.done === true) return await reply.code(204).send()
      await relay(reply, first, iterator, signal, context.limits.heartbeatMs)
      return await reply
    },
  )

  app.get(
    '/executions/:id/trace',
    {
      schema: {
        operationId: 'getTrace',
        tags: ['executions'],
        summary: 'The spans of an execution, each before its children.',
        description:
          'Spans are kept for an hour. Each process stores those of at most 64 executions a second, ' +
          'failures first, so the list can be empty. Error messages are left out for keys of tenants.',
        params: executionParams,
        response: { 200: executionTraceSchema, ...FAILURES },
      },
    },
    async (request) => {
      const tenant = tenantScope(request)
      const { id } = request.params
      const { state } = await findState(context, tenant, id)
      // The spans are found by execution and never by trace ID, because a caller can send any trace ID.
      const kept = ((await readIfThere(context.cells, id, readShelvedTrace)) ?? []).flatMap((span) => {
        const parsed = traceSpanSchema.safeParse(span)
        return parsed.success ? [parsed.data] : []
      })
      const spans = spansInTreeOrder(tenant === null ? kept : kept.map(withoutMessages))
      return { execution_id: id, trace_id: spans[0]?.trace_id ?? state.result?.trace_id ?? null, spans }
    },
  )
}

/**
 * Sends every event until the source ends or the client disconnects. The headers are sent by then, so no HTTP
 * status can report a failure.
 */
async function relay(
  reply: FastifyReply,
  first: IteratorResult<StoredEvent> | null,
  iterator: AsyncIterator<StoredEvent>,
  signal: AbortSignal,
  heartbeatMs: number,
): Promise<void> {
  using stream = openEventStream(reply.raw, { headers: takeOver(reply), heartbeatMs, signal })
  try {
    for (let next = first ?? (await iterator.next()); next.done !== true; next = await iterator.next()) {
      const { id, event } = next.value
      await stream.send({ id, type: event.type, data: event })
      if (signal.aborted) break
    }
  } catch (error) {
    // The client resumes by Last-Event-ID.
    if (!signal.aborted) reply.log.warn({ err: error }, 'event stream broke off')
  } finally {
    await iterator.return?.()
  }
}

/** The one event that the store still knows, with an ID made here, unless `after` is that event. */
async function* endedEvent(
  result: ExecutionResult | null,
  after: string | undefined,
): AsyncGenerator<StoredEvent> {
  if (result === null || after?.endsWith(`-${OWN_SEQUENCE}`) === true) return
  const { attempt, ending, exit_status, exit_code, execution_id } = result
  const at_ms =
    Number.parseInt(execution_id.slice(4, 16), 16) + Math.round(result.queue_ms + result.duration_ms)
  yield {
    id: `${at_ms}-${OWN_SEQUENCE}`,
    event: { type: 'ended', at_ms, attempt, ending, exit_status, exit_code },
  }
}

/** Messages of exceptions can contain our files and hosts, so a tenant sees only their class. */
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
