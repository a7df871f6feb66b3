/** Waits for an ending on behalf of one HTTP request. */
import type { ExecutionId, ExecutionResult } from '@cofferdam/contract'
import type { FastifyReply } from 'fastify'
import { goneSignal } from './gone-signal.ts'
import type { RouteContext } from './route-context.ts'

/**
 * The result when it comes within `timeoutMs`; null when it does not, when the caller went away (which cancels
 * nothing), when the server drains, or when too many requests wait already. The caller is then answered 202.
 */
export async function waitForResult(
  context: RouteContext,
  reply: FastifyReply,
  id: ExecutionId,
  timeoutMs: number,
): Promise<ExecutionResult | null> {
  if (timeoutMs === 0) return null
  const release = context.waits.take()
  if (release === null) return null
  using gone = goneSignal(reply, context.draining)
  try {
    return await context.producer.wait(id, { timeoutMs, signal: gone.signal })
  } catch (error) {
    if (gone.signal.aborted) return null
    throw error
  } finally {
    release()
  }
}
