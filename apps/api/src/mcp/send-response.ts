/** Connects fastify and the web-standard handler of the MCP SDK. */
import { once } from 'node:events'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { takeOver } from '../streams.ts'

/** The headers that the handler reads. It never sees the key. */
const READ = /^(accept|content-type|mcp-.*)$/

/** `request` as the handler takes it. Its body comes apart, already parsed. */
export function webRequestOf(request: FastifyRequest, signal: AbortSignal): Request {
  const headers = new Headers()
  for (const [name, value] of Object.entries(request.headers))
    if (READ.test(name) && typeof value === 'string') headers.set(name, value)
  return new Request(new URL('/mcp', 'http://localhost'), { method: request.method, headers, signal })
}

/** Sends `response` with the headers that our hooks have set. Ends when the client is gone. */
export async function sendWebResponse(
  reply: FastifyReply,
  response: Response,
  gone: AbortSignal,
): Promise<void> {
  const { connection: _, ...headers } = Object.fromEntries(response.headers)
  const { raw } = reply
  raw.on('error', () => raw.destroy())
  raw.writeHead(response.status, { ...takeOver(reply), ...headers })
  // Otherwise a client that waits for the first message does not know that its request arrived.
  raw.flushHeaders()
  try {
    for await (const chunk of response.body ?? []) {
      if (gone.aborted) return
      if (!raw.write(chunk)) await once(raw, 'drain', { signal: gone })
    }
  } catch (error) {
    if (!gone.aborted) throw error
  } finally {
    raw.end()
  }
}
