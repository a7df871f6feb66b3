/**
 * `execute_code`, with the name, argument and result that ThinkWork's agents expect: Python code in, a
 * dictionary out. Every failure is a dictionary with `ok: false` and never a tool error, because agent
 * frameworks turn tool errors into exceptions.
 */
import {
  errorClassOf,
  exitStatusOf,
  isCofferdamError,
  toErrorBody,
  type ErrorClass,
  type ExecutionResult,
  type ExitStatus,
} from '@cofferdam/contract'
import type { CallToolResult } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { runExecution } from './run-execution.ts'
import { defineTool, type ToolCall } from './tool.ts'
import { publicErrorOf } from './tool-result.ts'

/**
 * A caller of this tool cannot fetch the result later, so the call waits almost as long as proxies keep a
 * connection open.
 */
const WAIT_MS = 55_000

const output = z.looseObject({
  ok: z.boolean(),
  stdout: z.string(),
  stderr: z.string(),
  exit_status: z.string(),
  duration_ms: z.number(),
  execution_id: z.string().optional(),
  value: z.unknown().optional(),
  error: z.string().optional().describe('Such as SandboxCapExceeded or SandboxProvisioning.'),
  error_message: z.string().optional(),
  dimension: z.string().optional().describe('tenant_daily or agent_hourly.'),
  resets_at: z.string().optional(),
})

const answer = (structured: z.output<typeof output>): CallToolResult => ({
  content: [{ type: 'text', text: JSON.stringify(structured) }],
  structuredContent: structured,
})

/** The answer to a call that has no execution result. */
const failed = (exit_status: ExitStatus, error: ErrorClass, error_message: string, more = {}) =>
  answer({ ok: false, stdout: '', stderr: '', exit_status, duration_ms: 0, error, error_message, ...more })

function endedAnswer(result: ExecutionResult): CallToolResult {
  const { ok, stdout, stderr, exit_status, duration_ms, execution_id, value } = result
  return answer({
    ok,
    stdout,
    stderr,
    exit_status,
    duration_ms: Math.round(duration_ms),
    execution_id,
    ...(value === undefined ? {} : { value }),
    ...(result.error === undefined ? {} : { error: result.error }),
    ...(result.error_message === undefined ? {} : { error_message: result.error_message }),
    ...(result.dimension === undefined ? {} : { dimension: result.dimension }),
    ...(result.resets_at === undefined ? {} : { resets_at: result.resets_at }),
  })
}

async function execute(code: string, call: ToolCall): Promise<CallToolResult> {
  const asked = { program: { type: 'script' as const, language: 'python' as const, source: code } }
  try {
    const ran = await runExecution({ ...call, takesTasks: false }, asked, { waitMs: WAIT_MS, detach: false })
    if ('ended' in ran) return endedAnswer(ran.ended)
    const { execution_id } = ran.running
    const message = `It has not ended yet. Its execution_id is ${execution_id}.`
    return failed('timeout', 'SandboxTimeout', message, { execution_id })
  } catch (error) {
    const { body } = toErrorBody(publicErrorOf(error), call.request.traceId)
    const { code: word, message, hint } = body.error
    if (!isCofferdamError(error)) call.request.log.error({ err: error }, 'execute_code failed')
    const isOurs = body.error.retry !== 'never'
    const status = isOurs ? exitStatusOf('provisioning') : exitStatusOf('error')
    const name = errorClassOf(isOurs ? 'provisioning' : 'error') ?? 'SandboxError'
    return failed(status, name, `${word}: ${message} ${hint}`)
  }
}

export const executeCode = defineTool({
  name: 'execute_code',
  title: 'Execute Python',
  description:
    'Run a block of Python in an isolated sandbox: 30 s, 256 MiB, no network. Returns a dictionary with ' +
    'ok, stdout, stderr, exit_status and duration_ms. If ok is false, error names the class: ' +
    'SandboxTimeout, SandboxOOM, SandboxError, SandboxCapExceeded (with resets_at: do not retry before) ' +
    'or SandboxProvisioning (retry later). run_code can do more.',
  input: z.strictObject({ code: z.string().max(1024 * 1024) }),
  output,
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
  scope: 'cofferdam:run',
  call: ({ code }, call) => execute(code, call),
})
