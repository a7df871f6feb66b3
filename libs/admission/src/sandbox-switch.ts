/**
 * Polyclaw's switch of its sandbox (seed 004: disabled by default), as it stands when an execution would use that sandbox. Off,
 * pointing at another pool, or not to be read means no.
 *
 *   enabled, at this pool ─► may     off ─► no, but for the operator's own test, which says whether to switch it on
 *   another pool, or no answer ─► no
 *
 * A test is known by a grant: the API leaves it in Redis under an idempotency key that nobody can guess before.
 */
import { createHash, randomUUID } from 'node:crypto'
import type { ExecutionRequest } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { keys } from './keys.ts'
import { within } from './within.ts'

/** Longer than a healthy Postgres or Redis ever takes; what runs at a vendor has the time. */
const ANSWER_MS = 5000

export interface SandboxSwitch {
  /** Why the execution may not use the sandbox, in public words; null when it may. Never rejects. */
  refuses(request: Pick<ExecutionRequest, 'tenant_id' | 'idempotency_key'>): Promise<string | null>
}

/** `endpoint` is the pool that this worker would use. */
export function createSandboxSwitch(deps: {
  redis: Redis
  endpoint: string
  read(): Promise<{ enabled: boolean; session_pool_endpoint: string }>
  onError(error: unknown): void
  answerMs?: number
}): SandboxSwitch {
  const { redis, endpoint, answerMs = ANSWER_MS } = deps
  return {
    async refuses(request) {
      try {
        const now = await within(deps.read(), answerMs, 'the sandbox configuration')
        if (now.session_pool_endpoint !== endpoint)
          return 'is configured with another pool since this worker started'
        if (now.enabled || (await within(isTest(redis, request), answerMs, 'the grant of a test')))
          return null
        return 'is disabled in the sandbox configuration'
      } catch (error) {
        deps.onError(error)
        return 'may be disabled: the sandbox configuration cannot be read'
      }
    },
  }
}

/** Lets one execution use the sandbox while it is disabled; resolves to the idempotency key that it must bear. */
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
  keys.sandboxTest(tenantId, createHash('sha256').update(key).digest('hex'))
