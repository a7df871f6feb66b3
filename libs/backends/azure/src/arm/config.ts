/** The section `provisioning.azure`: the subscription for new pools, and the credentials. */
import { z } from 'zod'
import { azureConfigSchema } from '../config.ts'
import { ARM_AUDIENCE } from './arm-client.ts'

const credentials = azureConfigSchema.pick({
  credentials: true,
  az: true,
  tenant_id: true,
  client_id: true,
  client_secret_file: true,
  client_certificate_file: true,
  federated_token_file: true,
  authority: true,
  identity_endpoint: true,
  identity_header_file: true,
})

export const azureProvisionConfigSchema = credentials.extend({
  subscription: z.guid().describe('The subscription in which pools are created.'),
  principals: z
    .array(z.guid())
    .min(1)
    .max(16)
    .optional()
    .describe(
      'Object IDs of the workers, which may run programs in the pool. Left out: the principal that ' +
        'creates it.',
    ),
  arm_endpoint: azureConfigSchema.shape.authority
    .default('https://management.azure.com')
    .describe(
      'Address of Azure Resource Manager, of another cloud or of `cofferdam double azure`. Default: ' +
        '`https://management.azure.com`.',
    ),
  arm_audience: z.url().max(256).default(ARM_AUDIENCE).describe('Audience of the tokens for `arm_endpoint`.'),
  retry_ms: z
    .int()
    .min(1)
    .max(60_000)
    .default(5_000)
    .describe('The pause between tries of a call, and between polls of an operation if Azure names none.'),
  operation_ms: z
    .int()
    .min(1000)
    .max(3_600_000)
    .default(15 * 60_000)
    .describe('The longest time to wait for an operation.'),
})
export type AzureProvisionConfig = z.output<typeof azureProvisionConfigSchema>
