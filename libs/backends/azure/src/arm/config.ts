/** The section `provisioning.azure`: whose subscription pools are made in, and with which credentials. */
import { z } from 'zod'
import { azureConfigSchema } from '../config.ts'
import { ARM_AUDIENCE } from './arm-client.ts'

const credentials = azureConfigSchema.pick({
  credentials: true,
  az: true,
  tenant_id: true,
  client_id: true,
  client_secret_file: true,
  federated_token_file: true,
  authority: true,
  identity_endpoint: true,
  identity_header_file: true,
})

export const azureProvisionConfigSchema = credentials.extend({
  subscription: z.guid().describe('The subscription that pools are made in.'),
  principals: z
    .array(z.guid())
    .min(1)
    .max(16)
    .optional()
    .describe(
      'Object ids that may run programs in the pool: those of the workers. Left out: whoever makes it.',
    ),
  arm_endpoint: azureConfigSchema.shape.authority
    .default('https://management.azure.com')
    .describe('Another cloud’s, or that of `cofferdam double azure`.'),
  arm_audience: z.url().max(256).default(ARM_AUDIENCE).describe('Audience of the tokens for it.'),
  retry_ms: z
    .int()
    .min(1)
    .max(60_000)
    .default(5_000)
    .describe(
      'Between tries of a call, and between questions whether an operation is over where Azure names no time.',
    ),
  operation_ms: z
    .int()
    .min(1000)
    .max(3_600_000)
    .default(15 * 60_000)
    .describe('The longest operation that is waited for.'),
})
export type AzureProvisionConfig = z.output<typeof azureProvisionConfigSchema>
