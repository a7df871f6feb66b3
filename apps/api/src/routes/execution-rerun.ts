/** POST /v1/executions/{id}/rerun: enqueues an ended execution again, as it was or with edits. */
import {
  type Accepted,
  CofferdamError,
  editedRequest,
  executionRequestSchema,
  parse,
  rerunRequestSchema,
  rerunSchema,
  type ExecutionId,
} from '@cofferdam/contract'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import { holderOf, requireBoundTemplate, tenantScope } from '../authenticate.ts'
import { enqueueForCaller, enqueueHeadersSchema, withHeaders } from '../enqueue-for-caller.ts'
import { requireEnded, type EndedExecution } from '../find-execution.ts'
import { readKept } from '../rerun/kept-program.ts'
import { NOTED_EVENTS, rerunNotes } from '../rerun/notes.ts'
import type { App, RouteContext } from '../route-context.ts'
import { executionParams, FAILURES, waitSchema } from '../wire-schemas.ts'

/**
 * How many events are searched for changes since the first run. If there are more, older changes get no note.
 */
const EVENTS_LOOKED_AT = 100

export function executionRerun(app: App, context: RouteContext): void {
  app.post(
    '/executions/:id/rerun',
    {
      schema: {
        operationId: 'rerunExecution',
        tags: ['executions'],
        summary: 'Run an ended execution again, as it was or with edits.',
        description:
          'The tenant’s policy must have kept its program (`keep_program`). The request is treated like a ' +
          'new one: the current policy, template, caps and sessions apply. The first request’s idempotency ' +
          'key, callback, delay and trace are not repeated.',
        params: executionParams,
        headers: enqueueHeadersSchema,
        body: rerunRequestSchema.optional(),
        querystring: z.strictObject({ wait: waitSchema.optional() }),
        response: {
          200: rerunSchema.describe('The new execution ended within the wait.'),
          202: rerunSchema.describe('The new execution was accepted; `Location` names it.'),
          ...FAILURES,
        },
      },
    },
    async (request, reply) => {
      const { id } = request.params
      const { edit = {}, idempotency_key } = request.body ?? {}
      const first = await requireStored(context, request, id)
      using program = await readKept(context, first, holderOf(request))
      const { tenant_id, template_id } = first.last
      const merged = parse(
        executionRequestSchema,
        {
          ...editedRequest(program.kept, edit),
          tenant_id,
          ...(template_id === null ? {} : { template_id }),
          ...(idempotency_key === undefined ? {} : { idempotency_key }),
        },
        'the kept request with the edits',
      )
      const execution = { ...withHeaders(merged, request.headers), rerun_of: id }
      const events = await context.store.tenants.events(tenant_id, {
        limit: EVENTS_LOOKED_AT,
        types: NOTED_EVENTS,
      })
      const notes = rerunNotes(execution, program.kept, first.last, events)
      let accepted: Accepted | null = null
      const { wait } = request.query
      const answer = await enqueueForCaller(context, request, reply, execution, wait, (one) => {
        accepted = one
      })
      if (accepted === null) throw new CofferdamError('internal', 'The rerun was enqueued without an answer.')
      const result = answer.status === 200 ? answer.body : null
      return await reply.code(answer.status).send({ execution: accepted, rerun_of: id, notes, result })
    },
  )
}

/** Throws what `requireEnded` throws, and `forbidden` for a key that is bound to another template. */
async function requireStored(
  context: RouteContext,
  request: FastifyRequest,
  id: ExecutionId,
): Promise<EndedExecution> {
  const ended = await requireEnded(context, tenantScope(request), id)
  const stored = ended.last.template_id === null ? {} : { template_id: ended.last.template_id }
  requireBoundTemplate(request, stored, 'run again only executions')
  return ended
}
