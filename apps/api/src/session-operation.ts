/**
 * What the API does with a session is an execution of that session (docs/decisions/0012): it waits for the session's turn,
 * runs where the sandbox is, and has an audit row. These routes put it and wait.
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
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { tenantScope } from './authenticate.ts'
import { enqueueAndWait } from './enqueue-and-wait.ts'
import type { RouteContext } from './route-context.ts'

/** Most answers come in milliseconds; behind a long execution the caller gets 202, before clients give up at 30 s. */
const WAIT_MS = 25_000
/** Nothing runs: what the worker's memory budget counts for it is the smallest limit. */
const MEMORY_MIB = 16

export const sessionParams = z.strictObject({ backend: nameSchema, key: sessionKeySchema })

export const sessionQuery = z.strictObject({
  tenant_id: nameSchema
    .optional()
    .meta({ description: 'Whose session; for admin keys, which have no tenant.' }),
  agent_id: nameSchema.default('sessions').meta({ description: 'Named in the audit row.' }),
  template_id: nameSchema.optional().meta({ description: 'For tenants that run nothing without one.' }),
})
type Query = z.output<typeof sessionQuery>

/** The tenant whose sessions are asked for. Throws `forbidden`, or `invalid_request` for an admin that names none. */
export function tenantOfSession(request: FastifyRequest, asked: string | undefined): string {
  const own = tenantScope(request)
  if (own !== null && asked !== undefined && asked !== own)
    throw new CofferdamError('forbidden', 'The API key belongs to another tenant.')
  const tenantId = own ?? asked
  if (tenantId === undefined)
    throw new CofferdamError(
      'invalid_request',
      'An admin key has no tenant of its own: name one by tenant_id.',
    )
  return tenantId
}

/** Throws `session_not_found`. */
export async function findSession(
  { sessions }: RouteContext,
  tenantId: string,
  { backend, key }: z.output<typeof sessionParams>,
): Promise<SessionInfo> {
  const found = await sessions.find({ tenantId, backend, key })
  if (found === null)
    throw new CofferdamError('session_not_found', 'There is no session of that key on that backend now.')
  return found
}

type Done = { accepted: Accepted } | { accepted: null; tenantId: string; result: ExecutionResult }

/**
 * Does it and waits. Resolves with the result when it ended `ok`, or with what was accepted when it still waits for the
 * session's turn. Throws what it ended with.
 */
export async function operateOnSession(
  context: RouteContext,
  request: FastifyRequest,
  reply: FastifyReply,
  what: {
    params: z.output<typeof sessionParams>
    query: Query
    op: FileOperation
    path?: string
    files?: ExecutionRequestInput['files']
  },
): Promise<Done> {
  const { params, query, op, path, files } = what
  const tenantId = tenantOfSession(request, query.tenant_id)
  const { scope } = await findSession(context, tenantId, params)
  const execution = executionRequestSchema.parse({
    tenant_id: tenantId,
    agent_id: query.agent_id,
    ...(query.template_id === undefined ? {} : { template_id: query.template_id }),
    program: { type: 'files', op, ...(path === undefined ? {} : { path }) },
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

/** The platform's word for why; what policy or a cap refused is a state of the tenant that does not allow it. */
function codeOf({ reason = 'internal', ending }: ExecutionResult): ErrorCode {
  if (isErrorCode(reason)) return reason
  return ending === 'error' || ending === 'sandbox_lost' ? 'internal' : 'conflict'
}
