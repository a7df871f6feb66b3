/**
 * The answer of a tool. A program's failure is a valid answer, not an error. `isError` means that the
 * platform failed, or that the call would succeed with other arguments or later.
 */
import {
  CofferdamError,
  isCofferdamError,
  toErrorBody,
  type Accepted,
  type ErrorBody,
  type ExecutionResult,
  type ExecutionState,
} from '@cofferdam/contract'
import type { CallToolResult } from '@modelcontextprotocol/server'
import { artifactContent } from './artifact-content.ts'
import type { Exchange } from './exchange.ts'
import { endedOutput, liveOutput } from './execution-output.ts'
import { textOfLive, textOfResult } from './result-text.ts'
import type { ToolCall } from './tool.ts'

/**
 * Endings that say nothing about the program, because it was refused or the platform failed. They set
 * `isError`.
 */
const NO_ANSWER: ReadonlySet<string> = new Set([
  'cap_exceeded',
  'policy_denied',
  'provisioning',
  'sandbox_lost',
  'worker_lost',
])

/** The answer for an execution that ended: structured content, text, images, and links to other artifacts. */
export async function endedResult(exchange: Exchange, result: ExecutionResult): Promise<CallToolResult> {
  return {
    content: [{ type: 'text', text: textOfResult(result) }, ...(await artifactContent(exchange, result))],
    structuredContent: endedOutput(result),
    isError: NO_ANSWER.has(result.ending),
  }
}

/** The answer for an execution that goes on. */
export function liveResult(state: Accepted | ExecutionState): CallToolResult {
  const output = liveOutput(state)
  return { content: [{ type: 'text', text: textOfLive(output) }], structuredContent: output }
}

/** Where the error of a failed call is, in the API's own shape. */
export const ERROR_META = 'io.cofferdam/error'

/** The answer for a call that failed. Messages of unexpected errors go to the log only. */
export function errorResult({ request }: ToolCall, error: unknown): CallToolResult {
  const { http, body } = toErrorBody(publicErrorOf(error), request.traceId)
  if (http >= 500 && body.error.code === 'internal')
    request.log.error({ err: error, trace_id: request.traceId }, 'an MCP tool call failed')
  return {
    content: [{ type: 'text', text: textOfError(body.error) }],
    isError: true,
    _meta: { [ERROR_META]: body.error },
  }
}

/** Hides the messages of `internal` and `config_invalid`, which are for operators (as error-response.ts). */
export function publicErrorOf(error: unknown): unknown {
  const isPrivate = isCofferdamError(error) && (error.code === 'internal' || error.code === 'config_invalid')
  return isPrivate ? new CofferdamError('internal', undefined, { cause: error }) : error
}

function textOfError({ code, message, hint, retry, trace_id }: ErrorBody['error']): string {
  const again =
    retry === 'never' ? '' : ` The same call may work ${retry === 'later' ? 'later' : 'elsewhere'}.`
  const trace = code === 'internal' && trace_id !== undefined ? ` trace_id: ${trace_id}` : ''
  return `${code}: ${message} ${hint}${again}${trace}`
}
