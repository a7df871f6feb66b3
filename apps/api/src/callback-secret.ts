/** A callback that nobody could check is not promised. */
import { CofferdamError } from '@cofferdam/contract'
import type { RouteContext } from './route-context.ts'

/** Throws `invalid_request` when the tenant has no secret to sign callbacks with. */
export async function requireCallbackSecret(context: RouteContext, tenantId: string): Promise<void> {
  if ((await context.store.callbackSecrets.info(tenantId)) !== null) return
  throw new CofferdamError(
    'invalid_request',
    `callback_url: tenant ${tenantId} has no secret to sign callbacks with; make one by POST /v1/tenants/${tenantId}/callback-secret.`,
  )
}
