/** The client library over the API that a command line asks for. */
import { createClient, type Client } from '@cofferdam/client'
import { openApi } from './api-connection.ts'
import type { CommandLine, Context } from './command.ts'

/**
 * Opens a client; the caller disposes it. Asks first whether anybody answers: the library would try for seconds, as a
 * service should, while a person wants to hear at once that nothing runs there. Throws `UsageError`, `CommandFailure`.
 */
export async function openClient(context: Context, line: CommandLine): Promise<Client> {
  const api = openApi(context, line)
  await api.call('GET', '/healthz')
  return createClient({ baseUrl: api.url, apiKey: api.key })
}
