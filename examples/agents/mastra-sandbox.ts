/**
 * A Mastra workspace whose commands run in a sandbox of Cofferdam. The workspace's tool is called without a
 * model, so no key is needed. Install `@mastra/core`, `zod`, `@cofferdam/client` and `@cofferdam/tools`.
 *
 * Output:
 *   tools: mastra_workspace_execute_command
 *   6
 *   Exit code: 3
 */
import { createClient } from '@cofferdam/client'
import { createMastraSandbox } from '@cofferdam/tools/mastra-sandbox'
import { createWorkspaceTools, Workspace } from '@mastra/core/workspace'
import { address, key } from '../connect.ts'

const client = createClient({ baseUrl: address(), apiKey: key() })
const sandbox = createMastraSandbox({ client, tenantId: 'demo', agentId: 'examples' })
// Give this to an agent: new Agent({ id, name, instructions, model, workspace }).
const workspace = new Workspace({ sandbox })
await workspace.init()

await sandbox.writeFiles([{ path: 'sum.py', content: 'print(1 + 2 + 3)' }])
const tools = await createWorkspaceTools(workspace)
console.log('tools:', Object.keys(tools).join(', '))
const command = tools['mastra_workspace_execute_command']
for (const line of ['python3 sum.py', 'exit 3'])
  console.log(String(await command.execute({ command: line }, { workspace })).trim())
await workspace.destroy()
await client.close()
