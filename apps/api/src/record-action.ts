/**
 * Records actions that change no row of a tenant in Postgres, such as a cancel: who did what, and to what.
 */
import { inTime } from '@cofferdam/contract'
import type { TenantAction } from '@cofferdam/store'
import type { FastifyRequest } from 'fastify'
import { actorOf } from './authenticate.ts'
import type { RouteContext } from './route-context.ts'

/** How long the caller waits for the event. A live Postgres takes milliseconds. */
const RECORD_MS = 1000

/**
 * Records what the caller did, with `details` as the event's `after`. The action is already done, so a
 * failure to record it is logged and not returned: a cancel must work while Postgres is away.
 */
export async function recordAction(
  { store }: Pick<RouteContext, 'store'>,
  request: FastifyRequest,
  tenantId: string,
  action: TenantAction,
  details: object,
): Promise<void> {
  try {
    const recorded = store.tenants.recordAction(tenantId, action, details, actorOf(request))
    await inTime(recorded, RECORD_MS, () => new Error(`no answer in ${RECORD_MS} ms`))
  } catch (error) {
    request.log.error(
      { err: error, tenant_id: tenantId, action, details, key_id: request.caller?.keyId },
      'what a caller did has no event',
    )
  }
}
