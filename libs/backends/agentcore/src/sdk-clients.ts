/**
 * Two clients of the data plane. `lifecycle` repeats calls: a Start has its token, and a Stop may come twice.
 * `invoke` never repeats: with the SDK's default, a broken connection ran the program twice (measured).
 */
import type { BedrockAgentCoreClientConfig } from '@aws-sdk/client-bedrock-agentcore'
import type { AgentcoreConfig } from './config.ts'
import { credentialsFrom } from './credentials.ts'
import { ATTEMPTS } from './retry-calls.ts'

/** Concurrent executions of a worker. The SDK's own agent has 50 sockets and makes other calls wait. */
const SOCKETS = 500
const CONNECT_MS = 5_000

/** Loads the SDK and makes no request. */
export async function openClients(config: AgentcoreConfig) {
  const sdk = await import('@aws-sdk/client-bedrock-agentcore')
  const agent = { keepAlive: true, maxSockets: SOCKETS }
  const common: BedrockAgentCoreClientConfig = {
    ...(config.region === undefined ? {} : { region: config.region }),
    ...(config.endpoint === undefined ? {} : { endpoint: config.endpoint }),
    ...(config.credentials_file === undefined
      ? {}
      : { credentials: credentialsFrom(config.credentials_file, config.profile) }),
    // No timeout: a quiet program sends nothing for long, and every call has a signal.
    requestHandler: { httpAgent: agent, httpsAgent: agent, connectionTimeout: CONNECT_MS },
  }
  return {
    sdk,
    lifecycle: new sdk.BedrockAgentCoreClient({ ...common, maxAttempts: ATTEMPTS.lifecycle }),
    invoke: new sdk.BedrockAgentCoreClient({ ...common, maxAttempts: 1 }),
  }
}
