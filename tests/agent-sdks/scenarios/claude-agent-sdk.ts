/**
 * The SDK itself would start Claude Code, which needs Anthropic's service. So this scenario calls the SDK's
 * server object over MCP.
 */
import { createSdkMcpServer } from '@anthropic-ai/claude-agent-sdk'
import { claudeAgentServer } from '@cofferdam/tools/claude-agent-sdk'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { z } from 'zod'
import { runCases, type Seen } from './cases.ts'

await runCases('claude-agent-sdk', async ({ tool, input, signal, name }): Promise<Seen | null> => {
  const server = claudeAgentServer(tool, { createSdkMcpServer, z })
  const [near, far] = InMemoryTransport.createLinkedPair()
  const client = new Client({ name: 'test', version: '1.0.0' })
  await Promise.all([server.instance.connect(far), client.connect(near)])
  try {
    const { tools } = await client.listTools()
    if (tools[0]?.inputSchema.required?.join() !== 'language,source') throw new Error('wrong schema')
    const result = await client.callTool({ name: tool.name, arguments: input }, undefined, { signal })
    if (result.isError !== (name === 'refused')) throw new Error(`isError is ${String(result.isError)}`)
    const content = result.content as { type: string; text?: string; data?: string }[]
    return {
      text: content.map(({ text = '' }) => text).join(''),
      images: content.flatMap(({ data }) => (data === undefined ? [] : [data])),
    }
  } catch (error) {
    if (!signal.aborted) throw error
    return null
  } finally {
    await client.close()
  }
})
