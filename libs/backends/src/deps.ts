/** What the backends of this registry get besides their configs: what all get, and what single vendors do. */
import type { AgentcoreDeps } from '@cofferdam/backend-agentcore'
import type { AzureDeps } from '@cofferdam/backend-azure'

export type BackendDeps = AgentcoreDeps & AzureDeps
