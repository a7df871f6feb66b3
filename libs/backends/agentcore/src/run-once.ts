/**
 * Runs a program in a session at most once: it has a name, and after a lost answer the worker asks the cell
 * (our program in the session) for its outcome.
 *
 *   call ──answer──▶ the program's end
 *     ├──refused before anything came──▶ it did not run
 *     ├──ended without an answer──▶ ask: has ended ──▶ its end │ anything else ──▶ lost
 *     └──lost──▶ ask: has ended, runs ──▶ its end │ did not and will not begin ──▶ repeat with a new name
 */
import { randomUUID } from 'node:crypto'
import { posix } from 'node:path'
import type { ToolArguments, ToolName } from '@aws-sdk/client-bedrock-agentcore'
import { isCofferdamError } from '@cofferdam/contract'
import { runInBackground } from './background-program.ts'
import { newNonce, type CellRequests } from './cell-requests.ts'
import { cellCode, cellCommand } from './cell-source.ts'
import { isLostAnswer, isNotBegun, isUnanswered, lostSandbox, refusedProgram } from './classify-failure.ts'
import type { OnText, ToolResult } from './consume-stream.ts'
import { requireKilled } from './exit-evidence.ts'
import { createLiveLines, withoutLines, type Piece } from './live-lines.ts'
import { ATTEMPTS, pause } from './retry-calls.ts'
import type { Answer } from './read-answer.ts'

/** A command that fits into one argument on Linux (MAX_ARG_STRLEN 128 KiB), including its shell. */
const COMMAND_MAX = 100 * 1024
/** Maximum bytes of a call's live lines. The service sends them twice, like all output. */
const LIVE_MAX = 1024 * 1024
/** Pauses between questions while a program whose answer was lost may still run. */
const OUTCOME_POLL_MS = { first: 500, longest: 5000 }

export interface ProgramRequest {
  once: string
  softMs: number
  graceMs: number
  /**
   * How the service runs it: as code of the session's interpreter (`cell`), as a command, or in the
   * background (`task`).
   */
  carrier: 'cell' | 'command' | 'task'
  maxOutput: number
  job: object
  /** Receives redacted output while the program runs: a prefix without gaps, perhaps not all of it. */
  onLive: (piece: Piece) => Promise<void>
  traceParent: string | undefined
}

/** `answer` of the cell is null after a kill; `result` of the tool is null if it was lost. */
export type Ran = { answer: Answer; result: ToolResult | null } | { answer: null; result: ToolResult }

export interface RunParts {
  requests: CellRequests
  /** Path of the cell in the session. */
  base: string
  /** A call failed: from then on it is unknown what runs in the session, whatever else is learnt. */
  onFailed: () => void
}

/**
 * Throws the signal's reason, an error of the cell, `protocol_violation`, or `sandbox_lost`: with reason
 * `not_begun` if the program certainly did not begin.
 */
export async function runOnce(
  { requests, base, onFailed }: RunParts,
  request: ProgramRequest,
  signal: AbortSignal,
): Promise<Ran> {
  // After an event or a task ID, a refusal no longer proves that the program did not begin.
  let isStarted = false
  const onStarted = (): void => void (isStarted = true)
  let { once } = request
  for (let attempt = 1; ; attempt += 1) {
    const nonce = newNonce()
    try {
      const result = await carry(requests, base, { ...request, once, nonce, onStarted }, signal)
      const answer = await requests.answered(result, nonce, request.maxOutput)
      if (answer === null) requireKilled(result)
      // An earlier try of this call began the program, but its stream was throttled, so the call was sent
      // again.
      if (answer?.head.outcome !== undefined) throw new Error('begun before')
      const [stdout, stderr] = [withoutLines(result.stdout, nonce), withoutLines(result.stderr, nonce)]
      return { answer, result: { ...result, stdout, stderr } }
    } catch (error) {
      onFailed()
      signal.throwIfAborted()
      if (!isStarted && isNotBegun(error)) throw refusedProgram(error)
      const asked = { ...request, once }
      if (isUnanswered(error)) return { answer: await kept(requests, asked, error, signal), result: null }
      if (isCofferdamError(error) && !isLostAnswer(error)) throw error
      const answer = await outcome(requests, asked, signal).catch(() => {
        signal.throwIfAborted()
        throw lostSandbox(error)
      })
      if (answer.head.outcome === undefined) return { answer, result: null }
      // The cell answered twice that the program has not begun.
      if (attempt === ATTEMPTS.program) throw refusedProgram(error)
      if (answer.head.for_good === true) once = randomUUID()
    }
  }
}

/** Runs the program with the tool that its `carrier` names. Returns the tool's result. */
async function carry(
  requests: CellRequests,
  base: string,
  {
    once,
    nonce,
    carrier,
    softMs,
    graceMs,
    job,
    onLive,
    onStarted,
    traceParent,
  }: ProgramRequest & { nonce: string; onStarted: () => void },
  signal: AbortSignal,
): Promise<ToolResult> {
  const request = { ...job, once, nonce, live: carrier === 'task' ? 0 : LIVE_MAX }
  const lines = createLiveLines(nonce)
  const onText: OnText = async (source, text) => {
    onStarted()
    for (const piece of lines.take(source, text)) await onLive(piece)
  }
  async function heard(tool: ToolName, given: ToolArguments): Promise<ToolResult> {
    const result = await requests.call(tool, given, signal, { onText, traceParent })
    // The service strips the last newline, which may end the last live line of a dying program.
    for (const source of ['stdout', 'stderr'] as const) await onText(source, '\n')
    return result
  }
  if (carrier === 'cell') return await heard('executeCode', { code: cellCode(request), language: 'python' })
  // The cell stops its program itself. This limit is for a cell that cannot.
  const limits = { softS: Math.ceil((softMs + graceMs) / 1000) + 1, graceS: 2 }
  const line = cellCommand(base, request, limits)
  const command = line.length <= COMMAND_MAX ? line : await asFile(requests, base, line, signal)
  if (carrier === 'command') return await heard('executeCommand', { command })
  return await runInBackground(requests, { command, onLive, traceParent, onStarted }, signal)
}

async function asFile(
  requests: CellRequests,
  base: string,
  command: string,
  signal: AbortSignal,
): Promise<string> {
  const path = requests.fileFor('sh')
  // The file removes itself: it holds the program's environment variables, and a kept session serves other
  // executions.
  const blob = Buffer.from(`rm -f "$0"\n${command}`)
  await requests.call('writeFiles', { content: [{ path, blob }] }, signal)
  return `sh ${posix.dirname(base)}/${path}`
}

/** The outcome of a program whose call has ended. If there is none, none will come: throws `error`. */
async function kept(
  requests: CellRequests,
  { once, maxOutput }: ProgramRequest,
  error: unknown,
  signal: AbortSignal,
): Promise<Answer> {
  const answer = await requests.askAgain({ op: 'outcome', once }, maxOutput, signal).catch(() => {
    signal.throwIfAborted()
    throw error
  })
  if (answer.head.outcome !== undefined) throw error
  return answer
}

/** What became of a program whose answer was lost: its end, or that it never began. */
async function outcome(
  requests: CellRequests,
  { once, maxOutput }: ProgramRequest,
  signal: AbortSignal,
): Promise<Answer> {
  for (let wait = OUTCOME_POLL_MS.first; ; wait = Math.min(wait * 1.5, OUTCOME_POLL_MS.longest)) {
    const answer = await requests.askAgain({ op: 'outcome', once }, maxOutput, signal)
    if (answer.head.outcome !== 'no_end') return answer
    await pause(wait, signal)
  }
}
