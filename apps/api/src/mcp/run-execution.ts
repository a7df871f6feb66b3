/**
 * Runs one execution for a tool call.
 *
 *   accepted ─► ended within the wait ─► result
 *        ├───► not ended, or this process drains ─► it goes on, and the answer names it
 *        └───► the client closed the request ─► cancelled, unless it is detached
 */
import {
  executionRequestSchema,
  parse,
  type Accepted,
  type ExecutionRequestInput,
  type ExecutionResult,
} from '@cofferdam/contract'
import { enqueueAndWait } from '../enqueue-and-wait.ts'
import { identityOf } from './exchange.ts'
import { rememberCall } from './legacy-cancel.ts'
import { followProgress } from './progress.ts'
import type { ToolCall } from './tool.ts'

/** A client that takes tasks gets a task if the execution runs longer than this. Most end sooner. */
const TASK_AFTER_MS = 2000

export interface RunOptions {
  waitMs: number
  /** Whether the execution continues when the client closes the request. */
  detach: boolean
}

/** What a tool decides about an execution. The rest comes from the key, the address and `_meta`. */
export type AskedExecution = Omit<ExecutionRequestInput, 'tenant_id' | 'agent_id'>

export type Ran = { ended: ExecutionResult } | { running: Accepted }

/** Throws `invalid_request` and what `enqueueAndWait` throws. */
export async function runExecution(call: ToolCall, asked: AskedExecution, options: RunOptions): Promise<Ran> {
  const { context, request, reply, gone } = call
  const identity = identityOf(call, call.meta, call.id)
  const execution = parse(
    executionRequestSchema,
    { invocation_source: 'chat', ...asked, ...identity },
    'the input',
  )
  const waitMs = call.takesTasks ? Math.min(options.waitMs, TASK_AFTER_MS) : options.waitMs
  const following = new AbortController()
  let progress: Promise<unknown> = Promise.resolve()
  try {
    const { status, body } = await enqueueAndWait(context, request, reply, execution, waitMs, (accepted) => {
      progress = Promise.all([
        options.detach ? null : rememberCall(call, accepted.execution_id, waitMs),
        followProgress(call, accepted.execution_id, following.signal),
      ])
    })
    if (status === 200) return { ended: body }
    if (gone.aborted && !options.detach)
      await context.producer.cancel(body.execution_id, 'The MCP client closed the request.')
    return { running: body }
  } finally {
    // No message may follow the answer.
    following.abort()
    await progress
  }
}
