/**
 * A program that may take longer than a call: started as a task, asked after until it is done, and shown meanwhile, for beside it the
 * session takes other calls.
 */
import { CofferdamError } from '@cofferdam/contract'
import type { ToolArguments, ToolName } from '@aws-sdk/client-bedrock-agentcore'
import type { ToolResult } from './consume-stream.ts'
import type { CallMore } from './data-plane.ts'
import type { Piece } from './live-lines.ts'
import { pause } from './patiently.ts'
import type { Answer } from './read-answer.ts'

/** It is asked after from this to that often, and for so much of what it printed since. */
const POLL_MS = { first: 1000, longest: 5000 }
const SHOWN_MAX = 1024 * 1024
/** Beside the end of its session, which is what counts. */
const STOP_MS = 5_000

export interface BackgroundParts {
  call(name: ToolName, given: ToolArguments, signal: AbortSignal, more?: CallMore): Promise<ToolResult>
  ask(request: object, most: number, signal: AbortSignal): Promise<Answer>
}

export interface BackgroundProgram {
  command: string
  onLive: (piece: Piece) => Promise<void>
  traceParent: string | undefined
  /** It is said to have begun. */
  onStarted: () => void
}

/** The task's own result. An abort stops the task too; throws the signal's reason then, and what calls throw. */
export async function runInBackground(
  parts: BackgroundParts,
  { command, onLive, traceParent, onStarted }: BackgroundProgram,
  signal: AbortSignal,
): Promise<ToolResult> {
  const { taskId } = await parts.call('startCommandExecution', { command }, signal, { traceParent })
  onStarted()
  if (taskId === null) throw new CofferdamError('protocol_violation', 'AgentCore: a task without an id.')
  try {
    return await untilDone(parts, taskId, onLive, signal)
  } catch (error) {
    // Its session is stopped as well, and nobody waits for this: it counts where that Stop fails.
    if (signal.aborted)
      void parts.call('stopTask', { taskId }, AbortSignal.timeout(STOP_MS)).catch(() => undefined)
    throw error
  }
}

async function untilDone(
  parts: BackgroundParts,
  taskId: string,
  onLive: BackgroundProgram['onLive'],
  signal: AbortSignal,
): Promise<ToolResult> {
  const from = { stdout: 0, stderr: 0 }
  for (let wait = POLL_MS.first; ; wait = Math.min(wait * 1.5, POLL_MS.longest)) {
    await pause(wait, signal)
    const result = await parts.call('getTask', { taskId }, signal)
    if (result.taskStatus !== 'submitted' && result.taskStatus !== 'working') return result
    const asking = { op: 'shown', from: [from.stdout, from.stderr], most: SHOWN_MAX }
    const shown = await parts.ask(asking, 2 * SHOWN_MAX, signal).catch(() => null)
    for (const stream of ['stdout', 'stderr'] as const) {
      const bytes = shown?.[stream] ?? Buffer.alloc(0)
      from[stream] += bytes.length
      if (bytes.length > 0) await onLive({ stream, bytes })
    }
  }
}
