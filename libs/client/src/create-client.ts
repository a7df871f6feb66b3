/** Chooses the transport. */
import type { Client } from './client.ts'
import { createHttpClient, type HttpClientOptions } from './http-client.ts'
import { createQueueClient, type QueueClientOptions } from './queue-client.ts'

export type ClientOptions = QueueClientOptions | HttpClientOptions

/**
 * Creates a client over Redis or over the HTTP API.
 *
 * @example
 * await using client = createClient({ baseUrl: 'http://127.0.0.1:7070', apiKey })
 * const result = await client.run({
 *   tenant_id: 'acme',
 *   agent_id: 'agent-1',
 *   program: { type: 'script', language: 'python', source: 'print(1 + 1)' },
 * })
 */
export function createClient(options: ClientOptions): Client {
  return 'redisUrl' in options ? createQueueClient(options) : createHttpClient(options)
}
