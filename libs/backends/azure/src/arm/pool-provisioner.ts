/** Creates and removes session pools of one subscription. Never changes a resource of somebody else. */
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { azureConfigSchema } from '../config.ts'
import { createCredentials } from '../credentials.ts'
import { createTokens } from '../tokens.ts'
import { ARM_DEFAULTS, createArmClient } from './arm-client.ts'
import type { AzureProvisionConfig } from './config.ts'
import {
  findPool,
  makePool,
  removeGroup,
  removePool,
  type Found,
  type MadePool,
  type PoolPlan,
  type PoolSteps,
} from './provision-pool.ts'

/** The parts of PoolSteps that the caller provides. */
export type PoolWork = Pick<PoolSteps, 'keep' | 'signal'>

export interface PoolProvisioner {
  readonly subscription: string
  /** Reads what exists. Throws ArmFailure, or `backend_unavailable` without a token. */
  find(plan: PoolPlan, signal: AbortSignal): Promise<{ group: Found; pool: Found }>
  /**
   * Throws ArmFailure, `conflict` for somebody else's pool, `backend_unavailable` without a token,
   * `config_invalid` if no principals are set and the token names none, or what `keep` throws.
   */
  make(plan: PoolPlan, work: PoolWork): Promise<MadePool>
  /** Resolves when a 404 proved that the pool is gone. Throws like `make`, but never `config_invalid`. */
  removePool(plan: PoolPlan, work: PoolWork): Promise<void>
  /**
   * Resolves to `kept` if the group is not ours or not empty. Throws ArmFailure, `backend_unavailable` or
   * what `keep` throws.
   */
  removeGroup(plan: PoolPlan, work: PoolWork): Promise<'gone' | 'kept'>
}

/** Creates the provisioner. It sends no request before it is used. */
export function createPoolProvisioner(config: AzureProvisionConfig): PoolProvisioner {
  const { subscription, principals, arm_endpoint, arm_audience, retry_ms, operation_ms, ...access } = config
  const tokens = createTokens(createCredentials(azureConfigSchema.parse(access)))
  const settings = {
    ...ARM_DEFAULTS,
    endpoint: arm_endpoint,
    audience: arm_audience,
    retryMs: retry_ms,
    operationMs: operation_ms,
  }
  const arm = createArmClient(settings, tokens)
  const stepsOf = (work: PoolWork): PoolSteps => ({ ...work, arm, principals: [] })
  return {
    subscription,
    find: (plan, signal) => findPool({ arm, signal }, plan),
    make: async (plan, work) => {
      const granted = principals ?? [ownId(await tokens.get(arm_audience, work.signal))]
      return await makePool({ ...stepsOf(work), principals: granted }, plan)
    },
    removePool: (plan, work) => removePool(stepsOf(work), plan),
    removeGroup: (plan, work) => removeGroup(stepsOf(work), plan),
  }
}

const claimsSchema = z.object({ oid: z.guid() })

/**
 * Returns the object ID in a token. The signature is not checked here, because Azure checks it in every call.
 */
function ownId(token: string): string {
  try {
    const [, payload = ''] = token.split('.')
    return claimsSchema.parse(JSON.parse(Buffer.from(payload, 'base64url').toString())).oid
  } catch (cause) {
    throw new CofferdamError(
      'config_invalid',
      'Azure: the token does not say whose it is; name the object ids that may use the pool in ' +
        'provisioning.azure.principals.',
      { cause },
    )
  }
}
