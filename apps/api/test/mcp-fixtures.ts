/**
 * Tools with the names that the conformance suites call. They use our transport and our executions, and are
 * served in addition to the real tools.
 */
import { MissingRequiredClientCapabilityError, type CallToolResult } from '@modelcontextprotocol/server'
import { LISTED_TOOLS, createServer } from '../src/mcp/create-server.ts'
import type { BuildServer } from '../src/mcp/endpoint.ts'
import { readResource } from '../src/mcp/resources.ts'
import { runExecution } from '../src/mcp/run-execution.ts'
import { declaresTasks, taskResult, TASKS } from '../src/mcp/tasks.ts'
import type { ToolCall } from '../src/mcp/tool.ts'
import { endedResult, liveResult } from '../src/mcp/tool-result.ts'

/** A red point. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='
/** The header of a WAV file, without samples. */
const WAV = 'UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA='

const text = (words: string) => ({ type: 'text' as const, text: words })
const image = { type: 'image' as const, data: PNG, mimeType: 'image/png' }
const resource = (uri: string) => ({
  type: 'resource' as const,
  resource: { uri, mimeType: 'text/plain', text: 'This is an embedded resource content.' },
})

type Fixture = (call: ToolCall, args: Record<string, unknown>) => Promise<CallToolResult>

const answers = (...content: CallToolResult['content']): Fixture => {
  return async () => ({ content })
}

/** Runs for as many seconds as the suite asks. Answers with a task if the client supports tasks. */
const slowCompute: Fixture = async (call, { seconds }) => {
  const program = {
    type: 'script' as const,
    language: 'python' as const,
    source: `seconds ${Number(seconds)}`,
  }
  const waitMs = call.takesTasks ? 200 : 30_000
  const ran = await runExecution(call, { program }, { waitMs, detach: false })
  if ('ended' in ran) return endedResult(call, ran.ended)
  return call.takesTasks ? taskResult(ran.running) : liveResult(ran.running)
}

/** A job that fails as if its sandbox was lost. A client that does not support tasks is refused. */
const failingJob: Fixture = async (call) => {
  if (!call.takesTasks)
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [TASKS]: {} } } })
  const program = { type: 'script' as const, language: 'python' as const, source: 'lost' }
  const ran = await runExecution(call, { program }, { waitMs: 0, detach: false })
  return 'ended' in ran ? endedResult(call, ran.ended) : taskResult(ran.running)
}

const withProgress: Fixture = async (call) => {
  const progressToken = call.meta?.['progressToken'] as string
  for (const progress of [0, 50, 100])
    await call.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } })
  return { content: [text('done')] }
}

const FIXTURES: Readonly<Record<string, Fixture>> = {
  test_simple_text: answers(text('This is a simple text response for testing.')),
  test_image_content: answers(image),
  test_audio_content: answers({ type: 'audio', data: WAV, mimeType: 'audio/wav' }),
  test_embedded_resource: answers(resource('test://embedded-resource')),
  test_multiple_content_types: answers(text('Multiple content types test:'), image, resource('test://mixed')),
  test_error_handling: async () => ({
    content: [text('This tool intentionally returns an error for testing')],
    isError: true,
  }),
  test_tool_with_progress: withProgress,
  test_streaming_elicitation: withProgress,
  test_logging_tool: answers(text('logged')),
  test_missing_capability: async () => {
    throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { sampling: {} } })
  },
  json_schema_2020_12_tool: answers(text('checked')),
  failing_job: failingJob,
  greet: async (_call, { name }) => ({ content: [text(`Hello, ${String(name)}!`)] }),
  slow_compute: slowCompute,
}

/** The schema of `json_schema_2020_12_tool`, with every keyword that a server might lose. */
const SCHEMA = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object' as const,
  $defs: {
    address: {
      $anchor: 'addressDef',
      type: 'object',
      properties: { street: { type: 'string' }, city: { type: 'string' } },
    },
  },
  properties: {
    name: { type: 'string' },
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: { type: 'string' },
    email: { type: 'string' },
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // oxlint-disable-next-line unicorn/no-thenable
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
}

const RESOURCES: Readonly<Record<string, { mimeType: string } & ({ text: string } | { blob: string })>> = {
  'test://static-text': { mimeType: 'text/plain', text: 'This is the content of the static text resource.' },
  'test://static-binary': { mimeType: 'image/png', blob: PNG },
  'test://template/123/data': { mimeType: 'application/json', text: '{"id":"123"}' },
}

/** The real server with the fixtures beside its tools and resources. */
export const buildWithFixtures: BuildServer = (exchange, asked) => {
  const server = createServer(exchange, asked)
  server.setRequestHandler('tools/list', () => ({
    tools: [
      ...LISTED_TOOLS,
      ...Object.keys(FIXTURES).map((name) => ({
        name,
        description: 'A fixture.',
        inputSchema: name === 'json_schema_2020_12_tool' ? SCHEMA : { type: 'object' as const },
      })),
    ],
  }))
  server.setRequestHandler('resources/read', async ({ params: { uri } }) => {
    const found = RESOURCES[uri]
    return found === undefined ? readResource(exchange, uri) : { contents: [{ uri, ...found }] }
  })
  server.setRequestHandler('tools/call', async ({ params }, ctx) => {
    const { id, _meta: meta, notify } = ctx.mcpReq
    const call: ToolCall = { ...exchange, id, meta, notify, takesTasks: declaresTasks(ctx) }
    const fixture = FIXTURES[params.name]
    if (fixture === undefined) throw new Error(`no fixture ${params.name}`)
    return fixture(call, params.arguments ?? {})
  })
  return server
}
