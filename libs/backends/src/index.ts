/** Places that make sandboxes: one folder per backend behind one registry. */
export { interpretersFor, type Interpreters } from './agentcore/interpreters.ts'
export {
  agentcoreProvisionConfigSchema,
  createAgentcoreProvisioner,
  type AgentcoreProvisionConfig,
  type AgentcoreProvisioner,
  type GarbageLine,
  type ProvisionLine,
  type ProvisionReport,
  type ReconcileOptions,
} from './agentcore/provision/index.ts'
export { azureProvisionConfigSchema, type AzureProvisionConfig } from './azure/arm/config.ts'
export { createPoolProvisioner, type PoolProvisioner } from './azure/arm/pool-provisioner.ts'
export { poolIdOf } from './azure/arm/pool-calls.ts'
export type { FleetPool } from './azure/fleet-pool.ts'
export type { Found as FoundPool, PoolPlan } from './azure/arm/provision-pool.ts'
export { capabilitiesTable } from './capabilities-table.ts'
export { backendsConfigSchema, orderedBackendsConfigSchema, type BackendsConfigInput } from './config.ts'
export { createBackends } from './create-backends.ts'
export type { BackendDeps, BackendLogger } from './deps.ts'
export {
  createRefillGate,
  warmConfigSchema,
  type WarmConfig,
  type WarmDeps,
  type WarmEvent,
  type WarmMemory,
} from './warm/index.ts'
export { createFakeBackend, fakeSource, type FakeStep } from './fake/index.ts'
export { createHostileBackend, type HostileOptions, type HostileTricks } from './hostile/index.ts'
export { BACKENDS, isBackendName, type BackendName } from './registry.ts'
export { register, type BackendModule, type Registration } from './registration.ts'
