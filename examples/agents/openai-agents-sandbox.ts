/**
 * A `SandboxAgent` of @openai/agents whose shell and patches work in a sandbox of Cofferdam. The model is the
 * SDK's scripted one, so no key is needed. Install `@openai/agents`, `zod`, `@cofferdam/client` and
 * `@cofferdam/tools`.
 *
 * Output:
 *   apply_patch: done
 *   exec_command: Process exited with code 0, 6
 *   The sum is 6.
 */
import { createClient } from '@cofferdam/client'
import { createOpenAiAgentsSandboxClient } from '@cofferdam/tools/openai-agents-sandbox'
import { applyDiff, run, setTracingDisabled } from '@openai/agents'
import { file, Manifest, SandboxAgent } from '@openai/agents/sandbox'
import { assistantMessage, functionCall, ScriptedModel } from '@openai/agents/testing'
import { address, key } from '../connect.ts'

setTracingDisabled(true)
const client = createClient({ baseUrl: address(), apiKey: key() })
const sandboxes = createOpenAiAgentsSandboxClient({
  client,
  tenantId: 'demo',
  agentId: 'examples',
  sdk: { Manifest, applyDiff },
})

const agent = new SandboxAgent({
  name: 'coder',
  defaultManifest: new Manifest({ entries: { 'numbers.txt': file({ content: '1\n2\n3\n' }) } }),
  // Leave the model out to use OpenAI's.
  model: new ScriptedModel([
    [
      {
        type: 'apply_patch_call',
        callId: 'call-1',
        status: 'completed',
        operation: {
          type: 'create_file',
          path: 'sum.py',
          diff: '+print(sum(map(int, open("numbers.txt"))))',
        },
      },
    ],
    [functionCall('exec_command', { cmd: 'python3 sum.py' }, { callId: 'call-2' })],
    [assistantMessage('The sum is 6.')],
  ]),
})

// Without a `key` in the options above, the session ends with the run.
const { newItems, finalOutput } = await run(agent, 'Add the numbers.', { sandbox: { client: sandboxes } })
for (const item of newItems) {
  if (item.type !== 'tool_call_output_item') continue
  const [, ending, , sum] = String(item.output).split('\n')
  console.log(ending === undefined ? 'apply_patch: done' : `exec_command: ${ending}, ${sum}`)
}
console.log(finalOutput)
await client.close()
