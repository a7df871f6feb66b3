/**
 * Makes a change that is committed in Postgres live in Redis.
 *
 *   Postgres commit ─► admission's caps, the scheduler's limits, forget the workers' cached policy ─► 200
 *                         └─ Redis away ─► 503 that says so; sending the same request again finishes it
 *
 * Until Redis has it, workers go on with the old values: cached policy for at most the cache's freshness (1 s), caps
 * until a worker next reads the tenant from Postgres.
 */
import { isDeepStrictEqual } from 'node:util'
import { CofferdamError, inTime, type TenantCaps } from '@cofferdam/contract'
import type { RouteContext } from './route-context.ts'

/** A Redis that does not answer is given this long before the caller is told. */
const ANSWER_MS = 3000

/** Writers of one tenant's caps at once that are followed; each round means that another one came in between. */
const MAX_ROUNDS = 10

const SAME_AGAIN = 'Send the same request again.'

/** Forgets what workers cached of a tenant's policy and templates. Throws `queue_unavailable`. */
export async function forgetPolicy(
  context: RouteContext,
  tenantId: string,
  repeat = SAME_AGAIN,
): Promise<void> {
  await within('policy', repeat, () => context.redis.del(`cfd:{${tenantId}}:policy`))
}

/**
 * Puts the caps of a tenant into force, as they stand in Postgres now: of two changes at once the later one wins in
 * both places, because whoever wrote Redis looks again. Throws `queue_unavailable`, whose message ends with `repeat`:
 * how the caller finishes the change.
 */
export async function applyCaps(
  context: RouteContext,
  tenantId: string,
  committed: TenantCaps,
  repeat = SAME_AGAIN,
): Promise<void> {
  let caps = committed
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const { weight, concurrency, max_queued } = caps
    await within('caps', repeat, async () => {
      await context.admission.setCaps(tenantId, caps)
      await context.producer.setTenantLimits(tenantId, { weight, concurrency, max_queued })
    })
    const now = await context.store.tenants.get(tenantId)
    if (now === null || isDeepStrictEqual(now.caps, caps)) break
    caps = now.caps
  }
  await forgetPolicy(context, tenantId, repeat)
}

async function within(what: 'policy' | 'caps', repeat: string, work: () => Promise<unknown>): Promise<void> {
  try {
    await inTime(work(), ANSWER_MS, () => new Error(`no answer in ${ANSWER_MS} ms`))
  } catch (cause) {
    throw new CofferdamError(
      'queue_unavailable',
      `The ${what} is stored in Postgres, but Redis did not take it: it is not live everywhere yet. ${repeat}`,
      { details: { stored: true, live: false }, cause },
    )
  }
}
