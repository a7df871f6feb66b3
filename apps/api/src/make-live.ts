/**
 * Makes a change that is committed in Postgres live in Redis.
 *
 *   Postgres commit ─► admission's caps, the scheduler's limits, the producers' sessions of runs,
 *                      forget the workers' cached policy ─► 200
 *                      └─ Redis away ─► 503 that says so; sending the same request again finishes it
 *
 * Until Redis has it, workers go on with the old values: cached policy for at most the cache's freshness (1
 * s), caps until a worker next reads the tenant from Postgres.
 */
import { createCapsWriter } from '@cofferdam/admission'
import { CofferdamError, inTime } from '@cofferdam/contract'
import type { RouteContext } from './route-context.ts'

/** Redis is given this long, and Postgres that is read beside it, before the caller is told. */
const ANSWER_MS = 3000

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
 * Puts the caps of a tenant, and whether its runs have sessions, into force, as they stand in Postgres now:
 * of two changes at once the later one wins in both places. Throws `queue_unavailable`, whose message ends
 * with `repeat`: how the caller finishes the change, and names what it `changed`.
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
    await inTime(work(), ANSWER_MS, () => new Error(`no answer in ${ANSWER_MS} ms`))
  } catch (cause) {
    throw new CofferdamError(
      'queue_unavailable',
      `The ${what} is stored in Postgres, but it is not live everywhere yet. ${repeat}`,
      { details: { stored: true, live: false }, cause },
    )
  }
}
