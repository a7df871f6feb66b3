/** The registry of backends: which exist, and how a configured one is loaded. */
export { interpretersFor, type Interpreters } from '@cofferdam/backend-agentcore'
export {
  agentcoreProvisionConfigSchema,
  createAgentcoreProvisioner,
  type AgentcoreProvisionConfig,
  type AgentcoreProvisioner,
  type GarbageLine,
  type ProvisionLine,
  type ProvisionReport,
  type ReconcileOptions,
} from '@cofferdam/backend-agentcore/provision'
export type { FleetPool } from '@cofferdam/backend-azure'
export {
  azureProvisionConfigSchema,
  createPoolProvisioner,
  poolIdOf,
  type AzureProvisionConfig,
  type FoundPool,
  type PoolPlan,
  type PoolProvisioner,
} from '@cofferdam/backend-azure/provision'
export type { BackendLogger } from '@cofferdam/sandbox/backend'
export { createFakeBackend, fakeSource, type FakeStep } from '@cofferdam/sandbox/fake'
export { createHostileBackend, type HostileOptions, type HostileTricks } from '@cofferdam/sandbox/hostile'
export {
  createRefillGate,
  warmConfigSchema,
  type WarmConfig,
  type WarmDeps,
  type WarmEvent,
  type WarmMemory,
} from '@cofferdam/sandbox/warm'
export { capabilitiesTable } from './capabilities-table.ts'
export { backendsConfigSchema, orderedBackendsConfigSchema, type BackendsConfigInput } from './config.ts'
export { createBackends } from './create-backends.ts'
export { BACKENDS, isBackendName, type BackendDeps, type BackendName } from './registry.ts'
