/** How a program ended and what it printed, by its cell's answer or, where that died, by what the tool says. */
import { CofferdamError, type Exit } from '@cofferdam/contract'
import type { ToolResult } from './consume-stream.ts'
import type { Answer } from './read-answer.ts'

export type Ended = Omit<Exit, 'usage'> & { stdout: Buffer; stderr: Buffer }

/** Throws `protocol_violation` for an answer to something else. */
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

/** The interpreter or the cell was killed, or did not end in time: what the tool itself says is all that there is. */
const KILLED: readonly (number | null)[] = [124, 137]

/** The interpreter was killed by SIGKILL: by the kernel, for memory, or by its own program. */
export const KILLED_BY_SIGKILL = 137

/** Throws `sandbox_lost` for a result without an answer that does not say that anybody was killed. */
export function requireKilled({ exitCode }: ToolResult): void {
  if (!KILLED.includes(exitCode))
    throw new CofferdamError('sandbox_lost', 'AgentCore: the cell of the session did not answer.', {
      details: { reason: 'no_answer', exit_code: exitCode },
    })
}

/** `stdout` and `stderr` come after what was shown while it ran. */
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
