/**
 * POST /v1/backends/{backend}/sessions/{key}/pause, resume and fork: a session on disk. Each call waits its
 * turn in the session like an execution (docs/decisions/0022). It answers 202 with `Location` after 25 s.
 */
import { acceptedSchema, forkKeysSchema, sessionKeySchema } from '@cofferdam/contract'
import { z } from 'zod'
import { oneTenant } from '../authenticate.ts'
import { recordAction } from '../record-action.ts'
import type { App, RouteContext } from '../route-context.ts'
import { changeSession, operateOnSession, sessionParams, sessionQuery } from '../session-operation.ts'
import { FAILURES } from '../wire-schemas.ts'

const TURN =
  'The call waits its turn like an execution of the session, and is not charged. 202 if that takes longer ' +
  'than 25 s; `Location` names the execution.'

const forkedSchema = z.strictObject({
  sessions: z
    .array(
      z.strictObject({
        key: sessionKeySchema.meta({ description: 'Its key.', example: 'attempt-1' }),
        session_id: z.string().meta({
          description: 'Identifies its sandbox.',
          example: 'ses_01a1fa08335671eda83cd82154726441',
        }),
      }),
    )
    .meta({ description: 'The new sessions, all paused.' }),
})

export function sessionPause(app: App, context: RouteContext): void {
  app.post(
    '/backends/:backend/sessions/:key/pause',
    {
      schema: {
        operationId: 'pauseSession',
        tags: ['sessions'],
        summary: 'Pause a session: save its machine to disk and free its memory.',
        description:
          'The next execution of the session, or a resume, continues it. Only microvm can pause. ' + TURN,
        params: sessionParams,
        querystring: sessionQuery,
        body: z.strictObject({}).optional(),
        response: { 202: acceptedSchema, 204: z.undefined().describe('It is paused.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { params, query } = request
      return changeSession(context, request, reply, { params, query, op: 'pause', action: 'session_paused' })
    },
  )

  app.post(
    '/backends/:backend/sessions/:key/resume',
    {
      schema: {
        operationId: 'resumeSession',
        tags: ['sessions'],
        summary: 'Resume a paused session before its next execution needs it.',
        description: `A session that is not paused stays as it is. ${TURN}`,
        params: sessionParams,
        querystring: sessionQuery,
        body: z.strictObject({}).optional(),
        response: { 202: acceptedSchema, 204: z.undefined().describe('It is not paused.'), ...FAILURES },
      },
    },
    async (request, reply) => {
      const { params, query } = request
      return changeSession(context, request, reply, {
        params,
        query,
        op: 'resume',
        action: 'session_resumed',
      })
    },
  )

  app.post(
    '/backends/:backend/sessions/:key/fork',
    {
      schema: {
        operationId: 'forkSession',
        tags: ['sessions'],
        summary: 'Make paused copies of a session.',
        description:
          'Each copy has the files of the session, but new interpreters and random numbers of its own. The ' +
          `session itself goes on. Either all copies are made or none. ${TURN}`,
        params: sessionParams,
        querystring: sessionQuery,
        body: z.strictObject({ keys: forkKeysSchema }),
        response: { 200: forkedSchema, 202: acceptedSchema, ...FAILURES },
      },
    },
    async (request, reply) => {
      const { params, query, body } = request
      const { keys } = body
      const done = await operateOnSession(context, request, reply, { params, query, op: 'fork', keys })
      const { execution_id } = done.accepted ?? done.result
      const details = { ...params, keys, execution_id }
      await recordAction(context, request, oneTenant(request, query.tenant_id), 'session_forked', details)
      if (done.accepted !== null) return reply.code(202).send(done.accepted)
      return forkedSchema.parse(done.result.value)
    },
  )
}
