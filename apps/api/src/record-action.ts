/** Writes events of changes that change no row of a tenant, such as a cancel: who did it, and to what. */
import { inTime } from '@cofferdam/contract'
import type { TenantAction } from '@cofferdam/store'
import type { FastifyRequest } from 'fastify'
import { actorOf } from './authenticate.ts'
import type { RouteContext } from './route-context.ts'

/** How long the caller waits for the event. A live Postgres takes milliseconds. */
const RECORD_MS = 1000

/**
 * Records what the caller did, with `details` as the event's `after`. It is done by then, so a failure is
 * logged and not answered: a cancel must work while Postgres is away.
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
