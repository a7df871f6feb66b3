/**
 * An operation on a session, such as reading a file, is an execution of that session (docs/decisions/0012):
 * it waits its turn in the session, runs on the worker that has the sandbox, and has an audit row. The routes
 * enqueue it and wait.
 */
import {
  CofferdamError,
  executionRequestSchema,
  isErrorCode,
  nameSchema,
  sessionKeySchema,
  type Accepted,
  type ErrorCode,
  type ExecutionRequestInput,
  type ExecutionResult,
  type FileOperation,
  type SessionInfo,
} from '@cofferdam/contract'
import type { TenantAction } from '@cofferdam/store'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { oneTenant } from './authenticate.ts'
import { enqueueAndWait } from './enqueue-and-wait.ts'
import { recordAction } from './record-action.ts'
import type { RouteContext } from './route-context.ts'
import { tenantQuery } from './wire-schemas.ts'

/** Most operations take milliseconds. The others get 202 after this, before clients give up at 30 s. */
const WAIT_MS = 25_000
/** No program runs, so the worker's memory budget is charged the smallest limit. */
const MEMORY_MIB = 16

export const sessionParams = z.strictObject({
  backend: nameSchema.meta({ description: 'The backend that has the session.', example: 'docker' }),
  key: sessionKeySchema.meta({ description: 'The key of the session.', example: 'notebook' }),
})

export const sessionQuery = z.strictObject({
  tenant_id: tenantQuery,
  agent_id: nameSchema.default('sessions').meta({
    description: 'The agent that the audit row names. Default: an agent with the name sessions.',
    example: 'analyst',
  }),
  template_id: nameSchema.optional().meta({
    description: 'The template. Needed if the tenant requires one. Default: none.',
    example: 'strict',
  }),
})

/** Returns the session. Throws `session_not_found`. */
export async function findSession(
  { sessions }: RouteContext,
  tenantId: string,
  { backend, key }: z.output<typeof sessionParams>,
): Promise<SessionInfo> {
  const found = await sessions.find({ tenantId, backend, key })
  if (found === null)
    throw new CofferdamError('session_not_found', 'There is no session with that key on that backend now.')
  return found
}

type Done = { accepted: Accepted } | { accepted: null; tenantId: string; result: ExecutionResult }

interface Operation {
  params: z.output<typeof sessionParams>
  query: z.output<typeof sessionQuery>
  op: FileOperation
  path?: string
  /** Keys of the new sessions of a fork. */
  keys?: string[]
  files?: ExecutionRequestInput['files']
}

/**
 * Enqueues the operation and waits. Resolves with the result when it ended `ok`, or with what was accepted
 * when it still waits its turn in the session. Throws the failure that it ended with.
 */
export async function operateOnSession(
  context: RouteContext,
  request: FastifyRequest,
  reply: FastifyReply,
  what: Operation,
): Promise<Done> {
  const { params, query, op, path, keys, files } = what
  const tenantId = oneTenant(request, query.tenant_id)
  const { scope } = await findSession(context, tenantId, params)
  const execution = executionRequestSchema.parse({
    tenant_id: tenantId,
    agent_id: query.agent_id,
    ...(query.template_id === undefined ? {} : { template_id: query.template_id }),
    program: {
      type: 'files',
      op,
      ...(path === undefined ? {} : { path }),
      ...(keys === undefined ? {} : { keys }),
    },
    ...(files === undefined ? {} : { files }),
    session: { key: params.key, scope },
    backend: params.backend,
    limits: { memory_mib: MEMORY_MIB },
  } satisfies ExecutionRequestInput)
  const { status, body } = await enqueueAndWait(context, request, reply, execution, WAIT_MS)
  if (status === 202) return { accepted: body }
  if (body.ending === 'ok') return { tenantId, result: body, accepted: null }
  throw new CofferdamError(codeOf(body), body.error_message, { details: { execution_id: body.execution_id } })
}

/** The platform's error code for the failure. `conflict` when a policy or a cap refused the operation. */
function codeOf({ reason = 'internal', ending }: ExecutionResult): ErrorCode {
  if (isErrorCode(reason)) return reason
  return ending === 'error' || ending === 'sandbox_lost' ? 'internal' : 'conflict'
}

/**
 * Runs an operation that has no result, and records the event `action`. Answers 204 when it is done, 202
 * while it still waits its turn. Throws as `operateOnSession`.
 */
export async function changeSession(
  context: RouteContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { action, ...what }: Operation & { action: TenantAction },
): Promise<FastifyReply> {
  const done = await operateOnSession(context, request, reply, what)
  const { accepted } = done
  const { execution_id } = accepted ?? done.result
  const { backend, key } = what.params
  const path = what.path ?? what.files?.[0]?.path
  const details = { backend, key, ...(path === undefined ? {} : { path }), execution_id }
  await recordAction(context, request, oneTenant(request, what.query.tenant_id), action, details)
  return accepted === null ? reply.code(204).send() : reply.code(202).send(accepted)
}
