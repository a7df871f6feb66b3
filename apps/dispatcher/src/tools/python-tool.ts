/**
 * read, write, edit, glob and grep as Python programs. A program reads its call as JSON on stdin. It answers
 * with a line of JSON and then the plain text. Inside JSON, redaction would miss a secret of several lines,
 * and could cut a quote.
 */
import { readFileSync } from 'node:fs'
import { BOUNDS, type ExecutionResult } from '@cofferdam/contract'
import { z } from 'zod'
import { describeEnding, isGuess } from './describe-ending.ts'
import { ToolInputError, type ToolAnswer, type ToolName, type ToolPlan, type ToolRoots } from './tool.ts'

/** Larger than any answer: 256 KiB read whose every byte becomes U+FFFD, or 200 paths of 4,096 bytes. */
const STDOUT_BYTES = 1024 * 1024

const headSchema = z.strictObject({ is_error: z.boolean() })

/** The source of a tool: some files of the folder `python`, one after the other. */
export const pythonSource = (...names: string[]): string =>
  names.map((name) => readFileSync(new URL(`./python/${name}.py`, import.meta.url), 'utf8')).join('\n\n')

/** Throws ToolInputError if the call is too large for the input of a program. */
export function planPython(
  tool: ToolName,
  source: string,
  call: Record<string, unknown>,
  roots: ToolRoots,
  hardTimeoutMs: number,
): ToolPlan {
  const { workdir, allowed, readOnly } = roots
  const stdin = JSON.stringify({ ...call, workdir, allowed, readOnly })
  if (Buffer.byteLength(stdin) > BOUNDS.stdinBytes)
    throw new ToolInputError(
      `${tool}: the input is too large: as JSON it may have ${BOUNDS.stdinBytes} bytes. Use several calls.`,
    )
  return {
    program: { type: 'command', argv: ['python3', '-I', '-S', '-c', source] },
    stdin,
    limits: { hard_timeout_ms: hardTimeoutMs, stdout_bytes: STDOUT_BYTES },
    answer: (result) => answerOf(tool, result),
  }
}

function answerOf(tool: ToolName, result: ExecutionResult): ToolAnswer {
  const head = result.stdout.slice(0, result.stdout.indexOf('\n') + 1)
  const parsed = result.ending === 'ok' || isGuess(result) ? readHead(head) : null
  if (parsed !== null && !result.stdout_truncated)
    return { text: result.stdout.slice(head.length), isError: parsed.is_error }
  return { text: describeEnding(tool, result), isError: true }
}

function readHead(line: string): z.output<typeof headSchema> | null {
  try {
    return headSchema.parse(JSON.parse(line))
  } catch {
    return null
  }
}
