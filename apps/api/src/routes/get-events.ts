/**
 * GET /v1/executions/{id}/events: what happens to an execution, as server-sent events.
 *
 *   live in Redis ─► its events after Last-Event-ID, until `ended`
 *   only in the store ─► one `ended` event with an id of our own
 *   nothing left to say ─► 204, which tells EventSource not to reconnect
 */
import {
  CofferdamError,
  executionEventSchema,
  type ExecutionResult,
  type StoredEvent,
} from '@cofferdam/contract'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { holderOf, tenantScope } from '../authenticate.ts'
import { openEventStream } from '../event-stream.ts'
import { findState } from '../find-execution.ts'
import { goneSignal } from '../gone-signal.ts'
import type { App, RouteContext } from '../route-context.ts'
import { FAILURES, executionParams } from '../wire-schemas.ts'

/** The largest sequence number of a Redis stream id: an id made by us never equals one of Redis. */
const OWN_SEQUENCE = '18446744073709551615'

const eventIdSchema = z
  .string()
  .regex(/^\d{1,15}-\d{1,20}$/, 'expected the id of an event, such as 1732111200000-0')
  .meta({ description: 'Only events after this one. The header Last-Event-ID means the same and wins.' })

/** Adds the route. */
export function getEvents(app: App, context: RouteContext): void {
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
      const after = request.headers['last-event-id'] ?? request.query.after
      const found = await findState(context, tenantScope(request), request.params.id)
      const place = context.streams.take(holderOf(request))
      if (place === null)
        throw new CofferdamError('busy', 'As many event streams are open here as may, or as this caller may.')
      using gone = goneSignal(reply, context.draining)
      try {
        const events = found.live
          ? context.producer.events(request.params.id, {
              signal: gone.signal,
              ...(after === undefined ? {} : { after }),
            })
          : endedEvent(found.state.result, after)
        const iterator = events[Symbol.asyncIterator]()
        // An ended execution answers at once, so whether anything is left to say is known before the headers leave.
        const first = found.state.status === 'ended' ? await iterator.next() : null
        if (first?.done === true) return await reply.code(204).send()
        await relay(reply, first, iterator, gone.signal, context.limits.heartbeatMs)
        return reply
      } finally {
        place.release()
      }
    },
  )
}

/** Sends every event until the source ends or nobody listens. After the headers there is no status left to fail with. */
async function relay(
  reply: FastifyReply,
  first: IteratorResult<StoredEvent> | null,
  iterator: AsyncIterator<StoredEvent>,
  signal: AbortSignal,
  heartbeatMs: number,
): Promise<void> {
  reply.hijack()
  const headers = Object.fromEntries(
    Object.entries(reply.getHeaders()).map(([name, value]) => [name, String(value)]),
  )
  using stream = openEventStream(reply.raw, { headers, heartbeatMs, signal })
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

/** The one event that the store can still tell, unless `after` is that very event. */
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
