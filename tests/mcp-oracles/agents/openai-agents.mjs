/** OpenAI's Agents SDK: its own MCP client, and the model of its test kit. */
import { Agent, MCPServerStreamableHttp, Runner } from '@openai/agents'
import { assistantMessage, functionCall, modelResponse, ScriptedModel } from '@openai/agents/testing'
import { headers, playTurns, url } from './turns.mjs'

const server = new MCPServerStreamableHttp({ name: 'cofferdam', url, requestInit: { headers } })
await server.connect()
const runner = new Runner({ tracingDisabled: true })

async function turn(args, signal) {
  const model = new ScriptedModel([
    modelResponse([functionCall('run_code', args, { callId: 'call-1' })]),
    modelResponse([assistantMessage('done')]),
  ])
  const agent = new Agent({ name: 'agent', instructions: 'go', model, mcpServers: [server] })
  await runner.run(agent, 'go', { signal })
  return model.calls[1].request.input.findLast(({ type }) => type === 'function_call_result').output
}

await playTurns({ tools: (await server.listTools()).map(({ name }) => name), turn })
await server.close()
