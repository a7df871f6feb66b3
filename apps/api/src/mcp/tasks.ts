/**
 * The extension `io.modelcontextprotocol/tasks` (2026-07-28). A task is an execution and has its ID. So it is
 * durable before the client hears of it, any replica knows it, and cancelling it cancels the execution.
 *
 *   queued, running → working    ended → completed, with the tool's result    cancelled → cancelled
 */
import {
  executionIdSchema,
  idTimeMs,
  isCofferdamError,
  type Accepted,
  type ExecutionState,
} from '@cofferdam/contract'
import {
  CLIENT_CAPABILITIES_META_KEY,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  type CallToolResult,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import { tenantScope } from '../authenticate.ts'
import { findState } from '../find-execution.ts'
import { recordAction } from '../record-action.ts'
import { liveOutput } from './execution-output.ts'
import type { Exchange } from './exchange.ts'
import { textOfLive } from './result-text.ts'
import type { ToolCall } from './tool.ts'
import { endedResult } from './tool-result.ts'

export const TASKS = 'io.modelcontextprotocol/tasks'

/** How often a client should ask. Progress changes about once a second. */
const POLL_MS = 1000

const capabilitiesSchema = z.looseObject({ extensions: z.looseObject({ [TASKS]: z.looseObject({}) }) })

/** Whether `capabilities`, as a client sent them, declare the extension. */
export const declaresTasksIn = (capabilities: unknown): boolean =>
  capabilitiesSchema.safeParse(capabilities).success

/** Whether this request's client declared the extension. */
export const declaresTasks = ({ mcpReq }: ServerContext): boolean =>
  declaresTasksIn((mcpReq.envelope as Record<string, unknown> | undefined)?.[CLIENT_CAPABILITIES_META_KEY])

/**
 * What every state of a task has. A task has no time to live: its result is kept as long as any other result.
 */
function taskOf(state: Accepted | ExecutionState, status: string): Record<string, unknown> {
  const createdAt = new Date(idTimeMs(state.execution_id)).toISOString()
  const startedAt = 'started_at' in state ? state.started_at : null
  return {
    taskId: state.execution_id,
    status,
    createdAt,
    lastUpdatedAt: ('progress' in state ? state.progress?.at : undefined) ?? startedAt ?? createdAt,
    ttlMs: null,
    pollIntervalMs: POLL_MS,
  }
}

/** The answer to a call whose execution goes on. Only for clients that declared the extension. */
export const taskResult = (accepted: Accepted): CallToolResult =>
  ({
    resultType: 'task',
    ...taskOf(accepted, 'working'),
    statusMessage: textOfLive(liveOutput(accepted)),
  }) as unknown as CallToolResult

/** Installs `tasks/get`, `tasks/update` and `tasks/cancel`. */
export function installTasks(server: Server, callOf: (ctx: ServerContext) => ToolCall): void {
  const params = z.looseObject({ taskId: z.string().max(128) })
  const result = z.looseObject({})
  server.setRequestHandler('tasks/get', { params, result }, async ({ taskId }, ctx) => {
    requireTasks(ctx)
    const call = callOf(ctx)
    return detailedTask(call, requireTask(await findTask(call, taskId)))
  })
  server.setRequestHandler('tasks/update', { params, result }, async ({ taskId }, ctx) => {
    requireTasks(ctx)
    // No task of ours asks for input, so there is nothing to deliver.
    requireTask(await findTask(callOf(ctx), taskId))
    return {}
  })
  server.setRequestHandler('tasks/cancel', { params, result }, async ({ taskId }, ctx) => {
    requireTasks(ctx)
    const call = callOf(ctx)
    const { execution_id, status, tenant_id } = requireTask(await findTask(call, taskId))
    if (status === 'ended') return {}
    const reason = 'The MCP client cancelled the task.'
    const cancelled = await call.context.producer.cancel(execution_id, reason)
    const details = { execution_id, status: cancelled, reason }
    await recordAction(call.context, call.request, tenant_id, 'execution_cancelled', details)
    return {}
  })
}

function requireTasks(ctx: ServerContext): void {
  if (!declaresTasks(ctx))
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASKS]: {} } } })
}

/** Null for a task that does not exist or is not the caller's. */
async function findTask({ context, request }: Exchange, taskId: string): Promise<ExecutionState | null> {
  const id = executionIdSchema.safeParse(taskId).data
  if (id === undefined) return null
  try {
    return (await findState(context, tenantScope(request), id)).state
  } catch (error) {
    if (!isCofferdamError(error) || error.code !== 'not_found') throw error
    return null
  }
}

function requireTask(state: ExecutionState | null): ExecutionState {
  if (state !== null) return state
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'There is no task of that taskId.')
}

/** A task as `tasks/get` answers it. Null for a task that does not exist or is not the caller's. */
export async function readTask(exchange: Exchange, taskId: string): Promise<Record<string, unknown> | null> {
  const state = await findTask(exchange, taskId)
  return state === null ? null : detailedTask(exchange, state)
}

async function detailedTask(exchange: Exchange, state: ExecutionState): Promise<Record<string, unknown>> {
  const { result } = state
  if (result === null) return { ...taskOf(state, 'working'), statusMessage: textOfLive(liveOutput(state)) }
  if (result.ending === 'cancelled') return taskOf(state, 'cancelled')
  return { ...taskOf(state, 'completed'), result: await endedResult(exchange, result) }
}
