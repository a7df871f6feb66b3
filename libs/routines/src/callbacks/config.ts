/** Settings of callbacks: which addresses besides public ones they may lead to. */
import { egressConfigSchema } from '@cofferdam/egress'
import { z } from 'zod'

export const callbacksConfigSchema = z.strictObject({
  private_allow: egressConfigSchema.shape.private_allow.describe(
    '`CIDR` or `CIDR:port` of receivers in the operator’s own network. Never filled from a tenant’s data.',
  ),
})
export type CallbacksConfig = z.output<typeof callbacksConfigSchema>
