/** Creates and removes the session pool of a fleet through Azure Resource Manager. */
export { azureProvisionConfigSchema, type AzureProvisionConfig } from './config.ts'
export { poolIdOf } from './pool-calls.ts'
export { createPoolProvisioner, type PoolProvisioner } from './pool-provisioner.ts'
export type { Found as FoundPool, PoolPlan } from './provision-pool.ts'
