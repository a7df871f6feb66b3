/** Ends an execution that no worker owns: cancelled by a caller, or found overdue by the sweep. */
import type { Ending, ExecutionId, ExecutionRequest } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { composeUnstarted, endedTail } from './ending.ts'
import { keysOf } from './cell.ts'
import { readable } from './request-blobs.ts'
import { runCoded, SCRIPTS } from './scripts.ts'

export type Unstarted = 'cancelled' | 'cancelling' | 'ended' | 'not_found' | 'running'

/** Returns `reason` without the secrets of the tenant and the request. */
export type RedactReason = (request: ExecutionRequest, reason: string) => Promise<string>

/**
 * Ends `id` with the given ending if it is delayed, queued or released. With `alsoRunning`, a running
 * execution is flagged as cancelled. Otherwise it is left alone (`running`).
 */
export async function endUnstarted(
  redis: Redis,
  id: ExecutionId,
  ending: { ending: Ending; reason: string; message: string },
  alsoRunning: boolean,
  redact: RedactReason = async (_request, reason) => reason,
): Promise<Unstarted> {
  for (;;) {
    const [fields, [seconds, micros]] = await Promise.all([
      redis.hmget(keysOf(redis).record + id, 's', 'at', 'eq', 'tp', 'req', 't', 'a'),
      redis.time(),
    ])
    const [state, attempt, enqueued, traceparent, stored, tenant, agent] = fields
    if (state === 'ended') return 'ended'
    if (state == null || stored == null) return 'not_found'
    const request = (await readable(redis, stored)) ?? lostRequest(stored, tenant ?? '', agent ?? '')
    const record = composeUnstarted({
      ...ending,
      message: await redact(request, ending.message),
      executionId: id,
      attempt: Math.max(1, Number(attempt)),
      request,
      enqueuedAtMs: Number(enqueued),
      nowMs: Number(seconds) * 1000 + Math.floor(Number(micros) / 1000),
      traceparent: traceparent ?? '',
    })
    const { code } = await runCoded(redis, SCRIPTS.endUnstarted, keysOf(redis).record + id, [
      id,
      record.audit.attempt,
      JSON.stringify(record.result),
      endedTail(record),
      JSON.stringify(record),
      ending.reason,
      alsoRunning ? '1' : '',
    ])
    if (code === 'began') return 'running'
    if (code !== 'changed') return code as Unstarted
    // The record changed: another attempt is due, or a worker took the execution. Compose the ending again,
    // unless a worker runs the execution and running ones are to be left alone.
    if (state === 'running' && !alsoRunning) return 'running'
  }
}

/** A stand-in for a request whose stored parts are not all readable. It has what the audit row needs. */
function lostRequest(stored: string, tenantId: string, agentId: string): ExecutionRequest {
  const known = JSON.parse(stored) as ExecutionRequest
  return {
    ...known,
    tenant_id: tenantId,
    agent_id: agentId,
    environment: known.environment ?? 'default-public',
    program: { type: 'install' },
  }
}
