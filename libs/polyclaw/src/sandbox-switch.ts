/**
 * The switch of Polyclaw's sandbox. A worker reads it when an execution is about to use the sandbox.
 *
 *   enabled, with a pool        the execution runs in that pool
 *   disabled                    refused, except for the operator's own test (POST /api/sandbox/test)
 *   no pool, or not readable    refused
 *
 * To allow a test, the API writes a grant to Redis under the random idempotency key of the test.
 */
import { createHash, randomUUID } from 'node:crypto'
import type { ExecutionRequest } from '@cofferdam/contract'
import { boundedAnswer } from '@cofferdam/queue/redis-calls'
import type { Redis } from 'ioredis'

/**
 * Longer than a healthy Postgres or Redis takes to answer. An execution that runs at a vendor can afford this
 * delay.
 */
const ANSWER_MS = 5000

export interface SandboxSwitch {
  /**
   * Returns public text that says why the execution may not use the sandbox, or null if it may. Never
   * rejects.
   */
  refuses(request: Pick<ExecutionRequest, 'tenant_id' | 'idempotency_key'>): Promise<string | null>
}

/** `allow` is called with the pool's endpoint before `refuses` resolves with null. */
export function createSandboxSwitch(deps: {
  redis: Redis
  allow(endpoint: string): void
  read(): Promise<{ enabled: boolean; session_pool_endpoint: string }>
  onError(this: void, error: unknown): void
  answerMs?: number
}): SandboxSwitch {
  const { redis, answerMs = ANSWER_MS } = deps
  return {
    async refuses(request) {
      try {
        const now = await boundedAnswer(deps.read(), answerMs, 'the sandbox configuration')
        if (now.session_pool_endpoint === '') return 'has no pool in the sandbox configuration'
        const isAllowed =
          now.enabled || (await boundedAnswer(isTest(redis, request), answerMs, 'the grant of a test'))
        if (!isAllowed) return 'is disabled in the sandbox configuration'
        deps.allow(now.session_pool_endpoint)
        return null
      } catch (error) {
        deps.onError(error)
        return 'may be disabled: the sandbox configuration cannot be read'
      }
    },
  }
}

/** Lets one execution use the disabled sandbox. Resolves with the idempotency key that it must have. */
export async function grantSandboxTest(redis: Redis, tenantId: string, forMs: number): Promise<string> {
  const idempotencyKey = `sandbox-test-${randomUUID()}`
  await redis.set(grantOf(tenantId, idempotencyKey), '1', 'PX', Math.ceil(forMs))
  return idempotencyKey
}

async function isTest(
  redis: Redis,
  { tenant_id: tenantId, idempotency_key: key }: Parameters<SandboxSwitch['refuses']>[0],
): Promise<boolean> {
  return key !== undefined && (await redis.exists(grantOf(tenantId, key))) === 1
}

const grantOf = (tenantId: string, key: string): string =>
  `cfd:{${tenantId}}:sandbox-test:${createHash('sha256').update(key).digest('hex')}`
