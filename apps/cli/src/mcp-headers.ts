/** What a message needs on its way to the API: HTTP headers, and a key to repeat it safely. */
import { randomUUID } from 'node:crypto'
import { z } from 'zod'

const requestId = z.union([z.string(), z.number()])

/** One JSON-RPC message. */
export const messageSchema = z.looseObject({
  jsonrpc: z.literal('2.0'),
  id: requestId.optional(),
  method: z.string().optional(),
  params: z.looseObject({ _meta: z.looseObject({}).optional() }).optional(),
})
export type Message = z.output<typeof messageSchema>

/** What a client of the 2025 revisions was told in the answer to its `initialize`. */
export interface Negotiated {
  version: string | null
  session: string | null
}

/** The header `Mcp-Name` repeats this parameter of the message. */
const NAMED_BY: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
}

const VERSION_META = 'io.modelcontextprotocol/protocolVersion'
const IDEMPOTENCY_META = 'io.cofferdam/idempotency_key'

/** The headers of `message`. A client of revision 2026-07-28 names its version in each message. */
export function mcpHeaders({ method, params }: Message, negotiated: Negotiated): Record<string, string> {
  const version = params?._meta?.[VERSION_META]
  const named = params?.[NAMED_BY[method ?? ''] ?? '']
  const common = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  if (typeof version !== 'string')
    return {
      ...common,
      ...(negotiated.version === null ? {} : { 'mcp-protocol-version': negotiated.version }),
      ...(negotiated.session === null ? {} : { 'mcp-session-id': negotiated.session }),
    }
  return {
    ...common,
    'mcp-protocol-version': version,
    'mcp-method': headerText(method ?? ''),
    ...(typeof named === 'string' ? { 'mcp-name': headerText(named) } : {}),
  }
}

/** Headers are visible ASCII. Other text is sent as Base64 in the form that MCP defines: `=?base64?…?=`. */
function headerText(text: string): string {
  const isPlain = /^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(text) && !/^=\?base64\?.*\?=$/i.test(text)
  return isPlain ? text : `=?base64?${Buffer.from(text).toString('base64')}?=`
}

/** `message` with an idempotency key, so that a tool call can be sent again after a broken connection. */
export function repeatable(message: Message): Message {
  if (message.method !== 'tools/call' || message.params?._meta?.[IDEMPOTENCY_META] !== undefined)
    return message
  const { params } = message
  return { ...message, params: { ...params, _meta: { ...params?._meta, [IDEMPOTENCY_META]: randomUUID() } } }
}
