/** The fleet that the test started, and how a program of this folder tells what it saw. */
import { createClient, type HttpClient } from '@cofferdam/client'

const { COFFERDAM_URL = '', COFFERDAM_API_KEY = '' } = process.env

export const client: HttpClient = createClient({ baseUrl: COFFERDAM_URL, apiKey: COFFERDAM_API_KEY })
export const options = { client, tenantId: 'acme', agentId: 'coder', backend: 'process' }

/** The value of a promise, or what it was rejected with. */
export async function outcome(promise: PromiseLike<unknown>): Promise<unknown> {
  try {
    return await promise
  } catch (error) {
    return { rejected: error instanceof Error ? error.message : String(error) }
  }
}

/** Ends the program with what it saw, as JSON in the last line. */
export async function tell(seen: object): Promise<void> {
  await client.close()
  process.stdout.write(`${JSON.stringify(seen)}\n`)
}

/** Text of a stream of bytes. */
export const textOf = (stream: ReadableStream<Uint8Array>): Promise<string> => new Response(stream).text()
