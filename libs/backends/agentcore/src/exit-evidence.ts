/**
 * How a program ended and what it printed: from the cell's answer, or from the tool's result if there is no
 * answer.
 */
import { CofferdamError, type Exit } from '@cofferdam/contract'
import type { ToolResult } from './consume-stream.ts'
import type { Answer } from './read-answer.ts'

export type Ended = Omit<Exit, 'usage'> & { stdout: Buffer; stderr: Buffer }

/** Throws `protocol_violation` if the answer belongs to another kind of request. */
export function fromAnswer({ head, stdout, stderr }: Answer): Ended {
  const { exit, bytes, dropped } = head
  if (exit === undefined || bytes === undefined || dropped === undefined)
    throw new CofferdamError('protocol_violation', 'AgentCore: an outcome without its parts.')
  return {
    exitCode: exit.code,
    signal: exit.signal ?? null,
    outputBytes: { stdout: bytes[0], stderr: bytes[1] },
    outputDropped: { stdout: dropped[0], stderr: dropped[1] },
    oomKills: exit.oom ?? 0,
    pidsLimitHit: false,
    diskLimitHit: head.disk_full ?? false,
    ...(exit.value == null ? {} : { valueJson: exit.value }),
    ...(exit.interpreter === undefined ? {} : { interpreter: exit.interpreter }),
    stdout,
    stderr,
  }
}

/** Exit codes of a tool whose interpreter or cell was killed or timed out. There is no answer then. */
const KILLED: readonly (number | null)[] = [124, 137]

/**
 * SIGKILL ended the interpreter. It came from the kernel for lack of memory, from the program, or from
 * `timeout`.
 */
export const KILLED_BY_SIGKILL = 137

/** Throws `sandbox_lost` if the result has no answer and does not report a kill. */
export function requireKilled({ exitCode }: ToolResult): void {
  if (!KILLED.includes(exitCode))
    throw new CofferdamError('sandbox_lost', 'AgentCore: the cell of the session did not answer.', {
      details: { reason: 'no_answer', exit_code: exitCode },
    })
}

/** The streams of `result` hold only what follows the output that was shown live. */
export function withoutAnswer(
  result: ToolResult,
  shown: Exit['outputBytes'],
  most: Exit['outputBytes'],
  oomKills: number,
): Ended {
  const [stdout, stderr] = [Buffer.from(result.stdout), Buffer.from(result.stderr)]
  const bytes = { stdout: shown.stdout + stdout.length, stderr: shown.stderr + stderr.length }
  return {
    exitCode: result.exitCode,
    signal: null,
    outputBytes: bytes,
    outputDropped: { stdout: bytes.stdout > most.stdout, stderr: bytes.stderr > most.stderr },
    oomKills,
    pidsLimitHit: false,
    diskLimitHit: false,
    stdout,
    stderr,
  }
}
