/** LangChain's adapter of MCP, an agent of LangChain, and the model of its test kit. */
import { AIMessage } from '@langchain/core/messages'
import { fakeModel } from '@langchain/core/testing'
import { MultiServerMCPClient } from '@langchain/mcp-adapters'
import { createAgent } from 'langchain'
import { headers, playTurns, url } from './turns.mjs'

const client = new MultiServerMCPClient({ mcpServers: { cofferdam: { transport: 'http', url, headers } } })
const tools = await client.getTools()

async function turn(args, signal) {
  const model = fakeModel()
    .respondWithTools([{ name: 'run_code', args, id: 'call-1' }])
    .respond(new AIMessage('done'))
  const agent = createAgent({ model, tools })
  const { messages } = await agent.invoke({ messages: [{ role: 'user', content: 'go' }] }, { signal })
  const { content, artifact, status } = messages.findLast((message) => message.getType() === 'tool')
  return { content, artifact, status }
}

await playTurns({ tools: tools.map(({ name }) => name), turn })
await client.close()
