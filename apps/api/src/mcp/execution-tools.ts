/** `get_execution` and `cancel_execution`. */
import { executionIdSchema, type ExecutionId } from '@cofferdam/contract'
import type { CallToolResult } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { holderOf, tenantScope } from '../authenticate.ts'
import { findState, notFound } from '../find-execution.ts'
import { recordAction } from '../record-action.ts'
import { goneSignal } from '../streams.ts'
import { cleanText, headAndTail } from './clean-text.ts'
import { endedOutput, executionOutput } from './execution-output.ts'
import { readOutputFrom } from './output-part.ts'
import { waitArgument } from './program-arguments.ts'
import { defineTool, type ToolCall } from './tool.ts'
import { endedResult, liveResult } from './tool-result.ts'

const executionId = executionIdSchema.describe('From an earlier answer.')

const getExecution = defineTool({
  name: 'get_execution',
  title: 'Get an execution',
  description:
    'Get the result of an execution that an earlier call started, waiting for its end for at most wait_s ' +
    'seconds. While it is queued or running, the answer says so, with its place in the queue and its ' +
    'progress. With stdout_from, get the part of its standard output from that byte on (32 KiB at a time; ' +
    '16 MiB are kept). Results are kept for the retention time of the tenant, 30 days by default.',
  input: z.strictObject({
    execution_id: executionId,
    wait_s: waitArgument,
    stdout_from: z.int().min(0).optional().describe('Byte offset, such as stdout_next of the last answer.'),
  }),
  output: executionOutput,
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
  scope: 'cofferdam:read',
  call: async ({ execution_id: id, wait_s, stdout_from }, call) => {
    const tenant = tenantScope(call.request)
    const { state } = await findState(call.context, tenant, id)
    if (state.status !== 'ended') await waitForEnd(call, id, wait_s * 1000)
    const { state: now } = state.status === 'ended' ? { state } : await findState(call.context, tenant, id)
    if (now.result === null) return liveResult(now)
    if (stdout_from === undefined) return endedResult(call, now.result)
    const part = await readOutputFrom(call, id, now.result, stdout_from)
    const more =
      part.next === undefined ? 'This is the end.' : `The next part begins at stdout_from ${part.next}.`
    return {
      content: [{ type: 'text', text: `${more}\n\n${headAndTail(cleanText(part.text), 20_000)}` }],
      structuredContent: {
        ...endedOutput(now.result),
        stdout: part.text,
        stdout_from,
        ...(part.next === undefined ? {} : { stdout_next: part.next }),
      },
    }
  },
})

/**
 * Waits until the execution ends, `timeoutMs` is over, or the client disconnects. Returns at once if this
 * process has no capacity for another wait.
 */
async function waitForEnd(
  { context, request, reply }: ToolCall,
  id: ExecutionId,
  timeoutMs: number,
): Promise<void> {
  using slot = timeoutMs > 0 ? context.waits.take(holderOf(request)) : null
  if (slot === null) return
  using gone = goneSignal(reply, context.draining)
  try {
    await context.producer.wait(id, { timeoutMs, signal: gone.signal })
  } catch (error) {
    if (!gone.signal.aborted) throw error
  }
}

const cancelExecution = defineTool({
  name: 'cancel_execution',
  title: 'Cancel an execution',
  description:
    'Stop an execution that an earlier call started. A queued one ends at once, a running one is asked to ' +
    'stop and then killed. Output that it printed so far stays. May be repeated.',
  input: z.strictObject({
    execution_id: executionId,
    reason: z.string().min(1).max(200).optional().describe('For the audit row.'),
  }),
  output: z.looseObject({
    execution_id: z.string(),
    status: z
      .enum(['cancelled', 'cancelling', 'ended'])
      .describe('ended: it had already ended, and nothing changed.'),
  }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  scope: 'cofferdam:cancel',
  call: async ({ execution_id: id, reason }, call): Promise<CallToolResult> => {
    const { state } = await findState(call.context, tenantScope(call.request), id)
    const status = state.status === 'ended' ? 'ended' : await call.context.producer.cancel(id, reason)
    if (status === 'not_found') throw notFound()
    const details = { execution_id: id, status, reason: reason ?? null }
    if (status !== 'ended')
      await recordAction(call.context, call.request, state.tenant_id, 'execution_cancelled', details)
    return {
      content: [{ type: 'text', text: `${status}: ${id}` }],
      structuredContent: { execution_id: id, status },
    }
  },
})

export const EXECUTION_TOOLS = [getExecution, cancelExecution]
