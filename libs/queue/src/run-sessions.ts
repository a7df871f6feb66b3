/**
 * Which tenants' executions share the session of their run (policy `run_sessions`), as every producer of the
 * fleet knows it: also one that reaches nothing but Redis.
 */
import { canHaveRunSession, withRunSession, type ExecutionRequest } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { KEYS } from './keys.ts'

/**
 * The request as it is stored: in the session of its run where its tenant has that, and with the reuse scope
 * that it has. Redis is asked only about a request that can have such a session.
 */
export async function placed(redis: Redis, asked: ExecutionRequest): Promise<ExecutionRequest> {
  const shares = canHaveRunSession(asked) && (await redis.sismember(KEYS.runSessions, asked.tenant_id)) === 1
  return withReuse(shares ? withRunSession(asked) : asked)
}

/** The request with its reuse scope written out, as stored requests have it, and as their hashes count it. */
export const withReuse = (request: ExecutionRequest): ExecutionRequest => ({
  ...request,
  reuse: request.reuse ?? 'job',
})

/** Holds for what is put from now on, in the whole fleet. */
export async function writeRunSessions(redis: Redis, tenantId: string, shares: boolean): Promise<void> {
  await (shares ? redis.sadd(KEYS.runSessions, tenantId) : redis.srem(KEYS.runSessions, tenantId))
}
