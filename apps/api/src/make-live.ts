/**
 * Makes a change that is committed in Postgres live in Redis.
 *
 *   Postgres commit ─► admission's caps, the scheduler's limits, forget the workers' cached policy ─► 200
 *                         └─ Redis away ─► 503 that says so; sending the same request again finishes it
 *
 * Until Redis has it, workers go on with the old values: cached policy for at most the cache's freshness (10 s), caps
 * until a worker next reads the tenant from Postgres.
 */
import { CofferdamError, type TenantCaps } from '@cofferdam/contract'
import type { RouteContext } from './route-context.ts'

/** A Redis that does not answer is given this long before the caller is told. */
const ANSWER_MS = 3000

/** Forgets what workers cached of a tenant's policy and templates. Throws `queue_unavailable`. */
export async function forgetPolicy(context: RouteContext, tenantId: string): Promise<void> {
  const tag = `cfd:{${tenantId}}`
  await within('policy', () => context.redis.del(`${tag}:policy`, `${tag}:templates`))
}

/** Puts caps into force. Throws `queue_unavailable` after which repeating is safe. */
export async function applyCaps(context: RouteContext, tenantId: string, caps: TenantCaps): Promise<void> {
  await within('caps', async () => {
    await context.admission.setCaps(tenantId, caps)
    await context.producer.setTenantLimits(tenantId, {
      weight: caps.weight,
      concurrency: caps.concurrency,
      max_queued: caps.max_queued,
    })
  })
  await forgetPolicy(context, tenantId)
}

async function within(what: 'policy' | 'caps', work: () => Promise<unknown>): Promise<void> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(() => late.reject(new Error(`no answer in ${ANSWER_MS} ms`)), ANSWER_MS)
  try {
    await Promise.race([work(), late.promise])
  } catch (cause) {
    throw new CofferdamError(
      'queue_unavailable',
      `The ${what} is stored in Postgres, but Redis did not take it: it is not live everywhere yet. Send the same request again.`,
      { details: { stored: true, live: false }, cause },
    )
  } finally {
    clearTimeout(timer)
  }
}
