/**
 * Runs a program that may outlast one call: starts it as a task and polls the task for its output and its
 * end. Between the polls the session takes other calls.
 */
import { CofferdamError } from '@cofferdam/contract'
import type { ToolArguments, ToolName } from '@aws-sdk/client-bedrock-agentcore'
import type { ToolResult } from './consume-stream.ts'
import type { CallMore } from './data-plane.ts'
import type { Piece } from './live-lines.ts'
import { pause } from './retry-calls.ts'
import type { Answer } from './read-answer.ts'

/** The pauses between polls in ms, and the most new bytes of each stream that one poll reads. */
const POLL_MS = { first: 1000, longest: 5000 }
const SHOWN_MAX = 1024 * 1024
/** A stopTask call may take this long. The session is stopped as well, so it does not have to succeed. */
const STOP_MS = 5_000

export interface BackgroundParts {
  call(name: ToolName, given: ToolArguments, signal: AbortSignal, more?: CallMore): Promise<ToolResult>
  ask(request: object, most: number, signal: AbortSignal): Promise<Answer>
}

export interface BackgroundProgram {
  command: string
  onLive: (piece: Piece) => Promise<void>
  traceParent: string | undefined
  /** Called when the service has accepted the task. */
  onStarted: () => void
}

/** Returns the task's result. An abort stops the task and throws the signal's reason. */
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
    // The session is stopped too, so nobody waits for this call. It matters only if that Stop fails.
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
