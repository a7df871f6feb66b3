/** One MCP request over HTTP: who calls and for whom, and whether anybody still waits for the answer. */
import { CofferdamError, nameSchema, parse, type ExecutionRequestInput } from '@cofferdam/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { requireTenant, tenantScope } from '../authenticate.ts'
import type { RouteContext } from '../route-context.ts'
import { readTraceparent } from '../trace-id.ts'
import { namedFields } from '../wire-schemas.ts'
import { hashedKey } from './hashed-key.ts'

/** What the address of the endpoint names for every call, such as `/mcp?agent_id=coder`. */
export const mcpQuery = z.strictObject({
  tenant_id: nameSchema.optional(),
  agent_id: nameSchema.optional(),
  user_id: nameSchema.optional(),
  template_id: nameSchema.optional(),
})

export interface Exchange {
  context: RouteContext
  request: FastifyRequest<{ Querystring: z.output<typeof mcpQuery> }>
  reply: FastifyReply
  /** Aborts when the client closes the connection before it has the whole answer. */
  gone: AbortSignal
}

/** Our keys of `_meta` begin with this. */
const PREFIX = 'io.cofferdam/'

/** What `_meta` names for one call. It wins over the address. */
const metaSchema = mcpQuery.extend({
  run_id: nameSchema.optional(),
  tool_call_id: nameSchema.optional(),
  idempotency_key: z.string().min(1).max(255).optional(),
})

/** The agent of a client that names none. */
const UNNAMED_AGENT = 'mcp'

/** The `_meta` of a request, as the client sent it. */
export type Meta = Readonly<Record<string, unknown>> | undefined

type Identity = Pick<
  ExecutionRequestInput,
  | 'tenant_id'
  | 'agent_id'
  | 'user_id'
  | 'template_id'
  | 'run_id'
  | 'tool_call_id'
  | 'idempotency_key'
  | 'traceparent'
>

/**
 * For whom a call runs, from the key, the address and `_meta`. The JSON-RPC ID is the default of
 * `tool_call_id`. Throws `forbidden` for another tenant or agent than the key or token has, and
 * `invalid_request`.
 */
export function identityOf({ request }: Exchange, meta: Meta, requestId: string | number): Identity {
  const ours = Object.entries(meta ?? {}).filter(([name]) => name.startsWith(PREFIX))
  const named = parse(
    metaSchema,
    Object.fromEntries(ours.map(([name, value]) => [name.slice(PREFIX.length), value])),
    `_meta (${PREFIX}…)`,
  )
  const { idempotency_key, ...who } = { ...request.query, ...namedFields(named) }
  const traceparent = readTraceparent(meta?.['traceparent'] ?? request.headers.traceparent)
  const id = String(requestId)
  return {
    ...namedFields({ tool_call_id: nameSchema.safeParse(id).data, ...namedFields(who) }),
    ...(idempotency_key === undefined
      ? {}
      : { idempotency_key: hashedKey(request.caller?.keyId ?? '', idempotency_key) }),
    ...(traceparent === null ? {} : { traceparent }),
    agent_id: agentOf(request, who.agent_id),
    tenant_id: tenantOf(request, who.tenant_id),
  }
}

/** The agent of the token, if it names one, else the `asked` one. Throws `forbidden` for another agent. */
function agentOf({ caller }: FastifyRequest, asked: string | undefined): string {
  const bound = caller?.grant?.agentId ?? null
  if (bound === null) return asked ?? UNNAMED_AGENT
  if (asked !== undefined && asked !== bound)
    throw new CofferdamError('forbidden', `The access token is of the agent ${bound}. Name no other one.`)
  return bound
}

/** The one tenant to act for. Throws `forbidden`, or `invalid_request` when an admin key names none. */
export function tenantOf(request: FastifyRequest, asked: string | undefined): string {
  if (asked !== undefined) requireTenant(request, asked)
  const tenantId = asked ?? tenantScope(request)
  if (tenantId !== null) return tenantId
  throw new CofferdamError(
    'invalid_request',
    'An admin key has no tenant of its own. Add ?tenant_id=NAME to the address of the MCP server, or use ' +
      'the key of a tenant.',
  )
}
