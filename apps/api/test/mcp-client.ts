/** Clients of /mcp: the SDK's, which speaks both eras, and bare requests. */
import type { AddressInfo } from 'node:net'
import { Client, StreamableHTTPClientTransport, type CallToolResult } from '@modelcontextprotocol/client'
import type { FastifyInstance } from 'fastify'
import { openScene, type Scene } from './scene.ts'

export const ERAS = ['2026-07-28', '2025-11-25'] as const
export type Era = (typeof ERAS)[number]

/** Makes `app` listen. Returns the address of its endpoint. */
export async function listenForMcp(app: FastifyInstance): Promise<string> {
  await app.listen({ port: 0, host: '127.0.0.1' })
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/mcp`
}

/** Two replicas of the API over one Redis, with the address of the endpoint of each. */
export async function openReplicas(): Promise<{ scene: Scene; url: string; otherUrl: string }> {
  const scene = await openScene()
  const url = await listenForMcp(scene.app)
  return { scene, url, otherUrl: await listenForMcp(await scene.another()) }
}

/** A client of one revision. Disposing closes it. */
export async function connectMcp(
  url: string,
  headers: Record<string, string>,
  era: Era,
  options: { capabilities?: object; fetch?: typeof fetch } = {},
): Promise<Client & AsyncDisposable> {
  const mode = era === '2026-07-28' ? { versionNegotiation: { mode: { pin: era } } } : {}
  const { capabilities = {} } = options
  const client = new Client({ name: 'test', version: '1.0.0' }, { capabilities, ...mode } as never)
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers },
    ...(options.fetch === undefined ? {} : { fetch: options.fetch }),
  })
  await client.connect(transport)
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}

/** Calls a tool. The structured content has no type, because each test reads other fields of it. */
export async function callTool(
  client: Client,
  name: string,
  args: Record<string, unknown>,
  more: { meta?: object; onprogress?: (progress: never) => void; signal?: AbortSignal } = {},
  // oxlint-disable-next-line typescript/no-explicit-any
): Promise<CallToolResult & { structuredContent?: any; text: string }> {
  const { meta, ...options } = more
  const params = { name, arguments: args, ...(meta === undefined ? {} : { _meta: meta }) }
  const result = (await client.callTool(params as never, options as never)) as CallToolResult
  const text = result.content.map((block) => (block.type === 'text' ? block.text : '')).join('\n')
  return { ...result, text }
}

/** The `_meta` that every request of revision 2026-07-28 has. */
export const envelope = (more: object = {}, capabilities: object = {}): object => ({
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': capabilities,
  'io.modelcontextprotocol/clientInfo': { name: 'bare', version: '1.0.0' },
  ...more,
})

/** Sends one message of revision 2026-07-28 without the SDK. */
export function post(
  url: string,
  method: string,
  params: Record<string, unknown>,
  options: {
    headers: Record<string, string>
    signal?: AbortSignal
    meta?: object
    capabilities?: object
  },
): Promise<Response> {
  const named = params['name'] ?? params['uri'] ?? params['taskId']
  return fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(typeof named === 'string' ? { 'mcp-name': named } : {}),
      ...options.headers,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method,
      params: { ...params, _meta: envelope(options.meta, options.capabilities) },
    }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  })
}
