/** For tests: Anthropic's own client against the double, and calls that a careless client would make. */
import { Anthropic } from '@anthropic-ai/sdk'
import type { BetaSelfHostedWork } from '@anthropic-ai/sdk/resources/beta/environments/work'
import type { ManagedAgentsDouble } from './managed-agents-double.ts'
import type { ToolCall } from './tool-calls.ts'

export type ClientOptions = NonNullable<ConstructorParameters<typeof Anthropic>[0]>

/** A client with the API key. The SDK's helpers replace the key by the credential that they are given. */
export const clientOf = (double: ManagedAgentsDouble, options: ClientOptions = {}): Anthropic =>
  new Anthropic({ baseURL: double.url, apiKey: double.apiKey, logLevel: 'off', ...options })

/** A client with the environment key. */
export const workerClientOf = (double: ManagedAgentsDouble, options: ClientOptions = {}): Anthropic =>
  new Anthropic({ baseURL: double.url, authToken: double.environmentKey, logLevel: 'off', ...options })

/** Polls once, without waiting. */
export const poll = (double: ManagedAgentsDouble): Promise<BetaSelfHostedWork | null> =>
  workerClientOf(double).beta.environments.work.poll(double.environmentId, {})

/** Polls and acknowledges the next item. Throws if there is none. */
export async function claim(double: ManagedAgentsDouble): Promise<BetaSelfHostedWork> {
  const work = await poll(double)
  if (work === null) throw new Error('there is nothing to claim')
  await workerClientOf(double).beta.environments.work.ack(work.id, { environment_id: double.environmentId })
  return work
}

/** What `handleItem` needs to know about a claimed item. */
export const handOver = (work: BetaSelfHostedWork) => ({
  workId: work.id,
  environmentId: work.environment_id,
  sessionId: work.data.id,
  ...(work.secret === null ? {} : { workSecret: work.secret }),
})

/** A tool that the SDK's runner calls by its name. */
export const tool = (
  name: string,
  run: (input: Record<string, unknown>, signal: AbortSignal) => string | Promise<string>,
) => ({
  type: 'custom' as const,
  name,
  description: name,
  input_schema: { type: 'object' as const },
  parse: (input: unknown) => input as Record<string, unknown>,
  run: (input: Record<string, unknown>, context?: { signal?: AbortSignal | null | undefined }) =>
    run(input, context?.signal ?? new AbortController().signal),
})

export const textOfResult = (call: ToolCall | undefined): string =>
  (call?.result?.content ?? []).map((block) => (block.type === 'text' ? block.text : block.type)).join('')

/** The path of a call about the work of an environment. */
export const workPath = (environmentId: string, call: string): string =>
  ['', 'v1', 'environments', environmentId, 'work', call].join('/')

/** A request without the SDK. Sends the version and beta headers unless told otherwise. */
export async function ask(
  double: ManagedAgentsDouble,
  method: string,
  path: string,
  { key, body, headers = {} }: { key?: string; body?: unknown; headers?: Record<string, string> } = {},
): Promise<{ status: number; body: unknown; headers: Headers }> {
  const response = await fetch(double.url + path, {
    method,
    headers: {
      'anthropic-version': '2023-06-01',
      'anthropic-beta': 'managed-agents-2026-04-01',
      ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  return { status: response.status, body: await response.json(), headers: response.headers }
}

/** The token in the secret of a polled item. */
export function tokenIn(work: BetaSelfHostedWork): string {
  const packed = JSON.parse(Buffer.from(work.secret ?? '', 'base64url').toString()) as {
    sessions_token: string
  }
  return packed.sessions_token
}
