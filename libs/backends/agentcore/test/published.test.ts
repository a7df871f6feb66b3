/**
 * The double has the members of AWS's models, and our client reads a result that AgentCore was seen to send.
 */
import * as agentcore from '@aws-sdk/client-bedrock-agentcore'
import * as agentcoreControl from '@aws-sdk/client-bedrock-agentcore-control'
import { expect, it } from 'vitest'
import type { z } from 'zod'
import { CONTROL_SHAPES, DATA_SHAPES } from '../double/published.ts'
import { consumeStream } from '../src/consume-stream.ts'

/**
 * A structure of the SDK's model: element 4 has the names of its members. The first ones are mandatory, and
 * element 6 (`required`) is their number.
 */
type Modelled = readonly [number, string, string, unknown, readonly string[], unknown, number?]

it.each([
  ...Object.entries(DATA_SHAPES).map((shape) => ['data', ...shape, agentcore] as const),
  ...Object.entries(CONTROL_SHAPES).map((shape) => ['control', ...shape, agentcoreControl] as const),
])('AgentCore’s double has the members of the %s plane’s model %s', (_plane, name, shape, sdk) => {
  const model = (sdk as unknown as Record<string, Modelled>)[`${name}$`]
  const [, , , , members = [], , required = 0] = model ?? []
  const fields = Object.entries((shape as z.ZodObject).shape) as [string, z.ZodType][]
  expect(members, name).toEqual(expect.arrayContaining(fields.map(([field]) => field)))
  const mandatory = fields.filter(([, field]) => !field.safeParse(undefined).success)
  expect(mandatory.map(([field]) => field).toSorted(), name).toEqual(members.slice(0, required).toSorted())
})

it('reads a result that AgentCore was seen to send', async () => {
  // From awslabs/open-agentic-platform (Apache-2.0), spikes/agentcore-code-interpreter/FINDINGS.md.
  const structuredContent = {
    taskStatus: 'completed' as const,
    stdout: 'finished-at-13\r\n',
    stderr: '',
    exitCode: 0,
    executionTime: 20.1,
  }
  expect(DATA_SHAPES.ToolResultStructuredContent.safeParse(structuredContent).success).toBe(true)
  async function* events() {
    yield { result: { content: [], structuredContent } }
  }
  const { stdout, exitCode, taskStatus } = await consumeStream(events())
  expect([stdout, exitCode, taskStatus]).toEqual(['finished-at-13\r\n', 0, 'completed'])
})
