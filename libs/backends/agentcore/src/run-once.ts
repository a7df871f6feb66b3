/**
 * A program in a session, begun at most once: it has a name there, and a call whose answer was lost is followed by the question what
 * became of it.
 *
 *   call ──answer──▶ its end
 *     ├──refused before anything came──▶ it did not run
 *     ├──whole, without its answer──▶ asked for: has ended ──▶ its end │ anything else ──▶ lost
 *     └──lost──▶ asked for: has ended, runs ──▶ its end │ never began, nor will ──▶ called once more, by another name
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
import { pause } from './patiently.ts'
import type { Answer } from './read-answer.ts'

/** A command line that one argument of Linux takes (MAX_ARG_STRLEN 128 KiB), with room for the shell around it. */
const COMMAND_MAX = 100 * 1024
/** Of lines that show output while a call runs; they come twice, as all of an answer does. */
const LIVE_MAX = 1024 * 1024
/** An outcome is asked for again while the program that was lost from sight may still run. */
const OUTCOME_POLL_MS = { first: 500, longest: 5000 }

export interface ProgramRequest {
  once: string
  softMs: number
  graceMs: number
  /** How the tool that carries it may work: a cell, a command, or a command in the background. */
  carrier: 'cell' | 'command' | 'task'
  maxOutput: number
  job: object
  /** Hears what it prints while it runs, redacted: from its beginning, without gaps, and not all of it. */
  onLive: (piece: Piece) => Promise<void>
  traceParent: string | undefined
}

/** What its cell says and what its tool does; `answer` is null when it was killed, `result` when that was lost. */
export type Ran = { answer: Answer; result: ToolResult | null } | { answer: null; result: ToolResult }

export interface RunParts {
  requests: CellRequests
  /** Where the cell stands in the session. */
  base: string
  /** A call failed: what runs in the session is open from then on, whatever is learnt of the program. */
  onFailed: () => void
}

/** Throws `sandbox_lost` where nothing is learnt, with reason `not_begun` when it was refused, and the reason of `signal`. */
export async function runOnce(
  { requests, base, onFailed }: RunParts,
  request: ProgramRequest,
  signal: AbortSignal,
): Promise<Ran> {
  // Since an event came, or a task its id: a refusal says nothing of the program any more.
  let isStarted = false
  const onStarted = (): void => void (isStarted = true)
  let { once } = request
  for (let attempt = 1; ; attempt += 1) {
    const nonce = newNonce()
    try {
      const result = await carry(requests, base, { ...request, once, nonce, onStarted }, signal)
      const answer = await requests.answered(result, nonce, request.maxOutput)
      if (answer === null) requireKilled(result)
      // Begun by an earlier try of this call, which a throttled stream did not tell.
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
      // The cell says so, twice.
      if (attempt === 2) throw refusedProgram(error)
      if (answer.head.for_good === true) once = randomUUID()
    }
  }
}

/** Has it run by the tool that may carry it; the tool's result. */
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
    // The service strips the newline at the end of a stream, where the last line of a program that died may stand.
    for (const source of ['stdout', 'stderr'] as const) await onText(source, '\n')
    return result
  }
  if (carrier === 'cell') return await heard('executeCode', { code: cellCode(request), language: 'python' })
  // The cell stops its program itself; this is for one that cannot.
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
  // It holds the program's variables, and a session that is kept serves another execution.
  const blob = Buffer.from(`rm -f "$0"\n${command}`)
  await requests.call('writeFiles', { content: [{ path, blob }] }, signal)
  return `sh ${posix.dirname(base)}/${path}`
}

/** The outcome of a program whose call has ended: what is not there now never will be, nor is it begun again. Throws `error` then. */
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
