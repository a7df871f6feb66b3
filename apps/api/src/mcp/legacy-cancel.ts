/**
 * `notifications/cancelled` of clients of the 2025 revisions. Over HTTP the notification is a request of its
 * own, which any replica may get. So Redis maps the name of a call to the execution that the call began.
 *
 *   the call was accepted first:    Redis has the execution ID ─► the notification reads it ─► cancel
 *   the notification came first:    Redis has CANCELLED ─► the call reads it ─► cancel
 *
 * Clients that share a key also share JSON-RPC IDs, so a call is named by the session ID that the client got
 * with its `initialize`. Nobody stores sessions: the ID only tells clients apart. Clients of 2026-07-28 close
 * the request instead.
 */
import type { ExecutionId } from '@cofferdam/contract'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { RouteContext } from '../route-context.ts'
import { hashedKey } from './hashed-key.ts'
import type { ToolCall } from './tool.ts'

/** The header of session IDs, in lower case. */
export const SESSION_HEADER = 'mcp-session-id'

/** Stored instead of the execution ID when the notification came first. */
const CANCELLED = 'cancelled'

/** How long the key of a call is kept after its wait, for a notification that comes late. */
const LATE_MS = 60_000

const notificationSchema = z.looseObject({
  method: z.literal('notifications/cancelled'),
  params: z.looseObject({
    requestId: z.union([z.string().max(256), z.number()]),
    reason: z.string().optional(),
  }),
})

/** The Redis key of a call. Null without a session ID: such a client cancels by closing the request. */
function nameOf(request: FastifyRequest, id: string | number): string | null {
  const session = request.headers[SESSION_HEADER]
  if (typeof session !== 'string' || session === '') return null
  return `cfd:mcp:call:${hashedKey(request.caller?.keyId ?? '', session, id)}`
}

/** Makes the call's execution known to every replica. Cancels it if the notification came first. */
export async function rememberCall(call: ToolCall, execution: ExecutionId, waitMs: number): Promise<void> {
  const { context, request, id } = call
  const name = nameOf(request, id)
  if (name === null) return
  try {
    const before = await context.redis.set(name, execution, 'PX', waitMs + LATE_MS, 'GET')
    if (before === CANCELLED) await context.producer.cancel(execution, REASON)
  } catch (error) {
    request.log.warn({ err: error }, 'an MCP call cannot be cancelled by a notification')
  }
}

const REASON = 'The MCP client cancelled the request.'

/** Cancels the execution that `body`, a cancelled notification, names. Other bodies do nothing. */
export async function cancelNamedCall(
  context: RouteContext,
  request: FastifyRequest,
  body: unknown,
): Promise<void> {
  const notification = notificationSchema.safeParse(body)
  if (!notification.success) return
  const { requestId, reason } = notification.data.params
  const name = nameOf(request, requestId)
  if (name === null) return
  const execution = await context.redis.set(name, CANCELLED, 'PX', LATE_MS, 'GET')
  if (execution === null || execution === CANCELLED) return
  await context.producer.cancel(execution as ExecutionId, reason?.slice(0, 200) ?? REASON)
}
