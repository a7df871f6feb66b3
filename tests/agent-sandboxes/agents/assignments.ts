/** Not run. The compiler checks that our sandboxes are what each SDK declares. */
import type { HttpClient } from '@cofferdam/client'
import { createAiSdkSandbox } from '@cofferdam/tools/ai-sdk-sandbox'
import { createMastraSandbox } from '@cofferdam/tools/mastra-sandbox'
import { createOpenAiAgentsSandboxClient } from '@cofferdam/tools/openai-agents-sandbox'
import type { Experimental_SandboxSession } from '@ai-sdk/provider-utils'
import type { WorkspaceSandbox } from '@mastra/core/workspace'
import { applyDiff } from '@openai/agents'
import { Manifest, type SandboxClient, type SandboxSession } from '@openai/agents/sandbox'

declare const client: HttpClient
const options = { client, tenantId: 'acme', agentId: 'coder' }

export const aiSdk: Experimental_SandboxSession = createAiSdkSandbox(options)
export const mastra: WorkspaceSandbox = createMastraSandbox(options)

const sandboxes = createOpenAiAgentsSandboxClient({ ...options, sdk: { Manifest, applyDiff } })
type Ours = Awaited<ReturnType<typeof sandboxes.resume>>
// Our session state has more fields than the SDK's. `SandboxClient` takes its type as a parameter.
export const openAiAgents: SandboxClient<Record<string, unknown>, Ours['state']> = sandboxes
export const session = (ours: Ours): SandboxSession<Ours['state']> => ours

/**
 * Methods of ours that the SDK does not have. All its methods are optional, so without this check the
 * compiler would accept a method that the SDK has renamed.
 */
type Named<Type> = { [Name in keyof Type]: Name extends keyof SandboxSession ? never : Name }[keyof Type]
export const unknownMethods: Named<Ours>[] = []
export const noUnknownMethod: [Named<Ours>] extends [never] ? true : false = true
