/**
 * Makes a change that is committed in Postgres live in Redis.
 *
 *   Postgres commit ─► admission's caps, the scheduler's limits, the producers' sessions of runs,
 *                      delete the workers' cached policy ─► 200
 *                      └─ Redis away ─► 503 that says so; the caller sends the same request again to finish
 *
 * Until then workers use the old values: a cached policy for at most the TTL of the cache (1 s), caps until a
 * worker next reads the tenant from Postgres.
 */
import { createCapsWriter } from '@cofferdam/admission'
import { CofferdamError, inTime } from '@cofferdam/contract'
import type { RouteContext } from './route-context.ts'

/** How long a change waits for Redis, including the read of Postgres, before the caller gets an answer. */
export const REDIS_MS = 3000

const SAME_AGAIN = 'Send the same request again.'

/** Deletes what workers cached of a tenant's policy and templates. Throws `queue_unavailable`. */
export async function forgetPolicy(
  context: RouteContext,
  tenantId: string,
  repeat = SAME_AGAIN,
): Promise<void> {
  await within('policy', repeat, async () => {
    const redis = await context.cells.ofTenant(tenantId)
    return await redis.del(`cfd:{${tenantId}}:policy`)
  })
}

/**
 * Reads a tenant's caps, and whether its runs have sessions, from Postgres and writes them to Redis. Of two
 * concurrent changes, the later one wins in Postgres and in Redis. Then removes the cached policy. Throws
 * `queue_unavailable`, whose message names what was `changed` and ends with `repeat`, the instruction for the
 * caller.
 */
export async function applyCaps(
  context: RouteContext,
  tenantId: string,
  repeat = SAME_AGAIN,
  changed: 'policy' | 'caps' = 'caps',
): Promise<void> {
  const { admission, producer, store } = context
  const write = createCapsWriter({ admission, producer, load: (id) => store.tenants.get(id) })
  await within(changed, repeat, () => write(tenantId))
  await forgetPolicy(context, tenantId, repeat)
}

async function within(what: 'policy' | 'caps', repeat: string, work: () => Promise<unknown>): Promise<void> {
  try {
    await inTime(work(), REDIS_MS, () => new Error(`no answer in ${REDIS_MS} ms`))
  } catch (cause) {
    throw new CofferdamError(
      'queue_unavailable',
      `The ${what} is stored in Postgres, but it is not live everywhere yet. ${repeat}`,
      { details: { stored: true, live: false }, cause },
    )
  }
}
