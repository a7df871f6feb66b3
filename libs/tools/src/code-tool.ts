/** The tool itself, without any SDK. */
import { OUTPUT_SCHEMA, type CodeResult } from './code-result.ts'
import { inputSchema, parseInput, type CodeInput } from './code-input.ts'
import { describe } from './description.ts'
import { forModel, type ModelOptions, type ModelPart } from './for-model.ts'
import { createImages } from './images.ts'
import { standardSchema, type ObjectSchema, type StandardSchema } from './json-schema.ts'
import { liveResults } from './live-results.ts'
import { settingsOf, type CodeToolOptions } from './options.ts'
import { runCode } from './run-code.ts'
import type { ToolCall } from './tool-call.ts'

/** What a person needs to know to approve a call. */
export interface ApprovalFacts {
  language: string
  /** The program as the model wrote it. Show it as text only. */
  source: string
  /** What the program could reach on the network, if the tenant's policy permits that. */
  network: NonNullable<CodeToolOptions['network']>
  hardTimeoutMs: number
  files: string[]
}

export interface CodeTool {
  readonly name: string
  /** For the model, at most 600 characters. */
  readonly description: string
  /** JSON Schema of the input. */
  readonly inputSchema: ObjectSchema
  /** JSON Schema of the result. */
  readonly outputSchema: typeof OUTPUT_SCHEMA
  /** The input's schema as an object of Standard Schema and Standard JSON Schema. */
  readonly schema: StandardSchema<CodeInput>
  /** Runs one program. Never rejects: failures, refusals and bad input are results. */
  run(input: unknown, call?: ToolCall): Promise<CodeResult>
  /** Like `run`, but yields preliminary results (`status: 'running'`) before the last one. */
  stream(input: unknown, call?: ToolCall): AsyncGenerator<CodeResult, void, undefined>
  /** The result as text and image parts. `maxChars` is by default that of the tool. */
  forModel(result: CodeResult, options?: ModelOptions): ModelPart[]
  /** For an approval hook. Null for input that `run` would refuse. */
  approvalFacts(input: unknown): ApprovalFacts | null
}

/**
 * Makes a tool that runs programs in the sandboxes of a fleet. The adapters (`@cofferdam/tools/ai-sdk` and
 * others) give it the shape of an SDK. Throws TypeError for options that cannot work.
 *
 * @example
 * const tool = createCodeTool({ client, tenantId: 'acme', agentId: 'analyst' })
 * const result = await tool.run({ language: 'python', source: 'print(1 + 1)' })
 * tool.forModel(result) // [{ type: 'text', text: 'Ended: ok, exit code 0, 41 ms. …' }]
 */
export function createCodeTool(options: CodeToolOptions): CodeTool {
  const settings = settingsOf(options)
  const { name, languages, session, maxChars, network, hardTimeoutMs } = settings
  const rules = { languages, namesSessions: typeof session === 'object' && 'prefix' in session }
  const schema = inputSchema(rules)
  const images = createImages(settings.client, settings.onProblem)
  const run = (input: unknown, call: ToolCall = {}): Promise<CodeResult> =>
    runCode(settings, images, input, call)
  return {
    name,
    description: describe(settings),
    inputSchema: schema,
    outputSchema: OUTPUT_SCHEMA,
    schema: standardSchema(schema, (value) => parseInput(value, rules)),
    run,
    stream: (input, call = {}) => liveResults((own) => run(input, own), call),
    forModel: (result, asked) => forModel(result, { maxChars, ...asked }),
    approvalFacts(input) {
      const parsed = parseInput(input, rules)
      if ('issues' in parsed) return null
      const { language, source, files = [] } = parsed.value
      return { language, source, network, hardTimeoutMs, files: files.map(({ path }) => path) }
    },
  }
}
