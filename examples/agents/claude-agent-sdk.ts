/**
 * Claude Agent SDK: the code tool as an MCP server inside this process. Claude Code itself needs Anthropic's
 * service, so this program plays its part and calls the server over MCP. It needs no key.
 *
 *   npm install @cofferdam/tools @anthropic-ai/claude-agent-sdk zod
 *
 * Output:
 *   mcp__cofferdam__run_code
 *   The sum is 5050.
 */
import { createSdkMcpServer } from '@anthropic-ai/claude-agent-sdk'
import { claudeAgentServer } from '@cofferdam/tools/claude-agent-sdk'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { z } from 'zod'
import { answerFrom, CALL, codeTool } from './code-tool.ts'

const cofferdam = claudeAgentServer(codeTool, { createSdkMcpServer, z })

// For a real model, replace everything below by:
//   const allowedTools = ['mcp__cofferdam__run_code']
//   for await (const message of query({ prompt, options: { mcpServers: { cofferdam }, allowedTools } }))
//     if (message.type === 'result' && message.subtype === 'success') console.log(message.result)
const [near, far] = InMemoryTransport.createLinkedPair()
const claude = new Client({ name: 'scripted', version: '1.0.0' })
await Promise.all([cofferdam.instance.connect(far), claude.connect(near)])
for (const { name } of (await claude.listTools()).tools) console.log(`mcp__${cofferdam.name}__${name}`)
const { content } = await claude.callTool({ name: CALL.name, arguments: CALL.input })
console.log(answerFrom((content as { text: string }[])[0]?.text ?? ''))
await claude.close()
