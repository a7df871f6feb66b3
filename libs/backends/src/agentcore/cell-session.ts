/**
 * A session at the service that has proven to be ours: requests to its cell, each answered once. The first failure that leaves open
 * what runs there ends its use: `isSound` is false from then on, and nobody runs a second program in it.
 */
import { randomBytes } from 'node:crypto'
import { posix } from 'node:path'
import type { ToolArguments, ToolName } from '@aws-sdk/client-bedrock-agentcore'
import { CofferdamError, isCofferdamError, type ProgramFile } from '@cofferdam/contract'
import { runInBackground } from './background-program.ts'
import {
  isLostAnswer,
  isNotBegun,
  isRefused,
  lostSandbox,
  openFailure,
  refusedProgram,
} from './classify-failure.ts'
import { cellCode, cellCommand, preamble, readyMarker } from './cell-source.ts'
import type { OnText, ToolResult } from './consume-stream.ts'
import { createLiveLines, withoutLines, type Piece } from './live-lines.ts'
import { despiteLosses, patiently, pause, THROTTLED_MAX } from './patiently.ts'
import { readAnswer, type Answer } from './read-answer.ts'
import type { CallMore, DataPlane, SessionPlace } from './data-plane.ts'

/** A turn in the fleet's own rate: with a sandbox somebody waits longer than where another backend may serve (10 s). */
const TURN_MS = 60_000
/** A command line that one argument of Linux takes (MAX_ARG_STRLEN 128 KiB), with room for the shell around it. */
const COMMAND_MAX = 100 * 1024
/** Of lines that show output while a call runs; they come twice, as all of an answer does. */
const LIVE_MAX = 1024 * 1024
/** An empty listing: the cheapest sign of life. One that takes longer, beyond the 10 s of a turn in the rate, is none. */
const SIGN_OF_LIFE = { op: 'list', globs: [], most: 0 }
const SIGN_MAX = 1024
const SIGN_MS = 15_000
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

export interface CellSession {
  readonly id: SessionPlace
  /** Where its cell stands in it. */
  readonly base: string
  /** Nothing happened to it that leaves open what runs there. */
  readonly isSound: boolean
  /** It must serve no other program. */
  spoil(): void
  /** Files for the next request, which puts them in their places. Throws what `invalid_request` and the like are for. */
  upload(files: readonly ProgramFile[], signal: AbortSignal): Promise<string>
  /** `archive`: of files that come first, put there by `upload`. `most` bounds the bytes of the answer. */
  ask(request: { op: string; archive: string | null }, most: number, signal: AbortSignal): Promise<Answer>
  /** Whether it answers. Throws `backend_unavailable` when rate, rights or keys let nobody ask. */
  isAlive(signal: AbortSignal): Promise<boolean>
  /** Runs a program at most once. Null when the interpreter ended without an answer; then the tool's own result says how. */
  run(
    request: ProgramRequest,
    signal: AbortSignal,
  ): Promise<{ answer: Answer | null; result: ToolResult | null }>
}

/** Proves that the session is ready: exit code 0, no error, and the marker as the last line. Throws otherwise. */
export async function proveReady(
  service: DataPlane,
  id: SessionPlace,
  signal: AbortSignal,
): Promise<CellSession> {
  let nonce = ''
  const install = async (): Promise<ToolResult> => {
    // A stream that was throttled does not tell whether the last one was installed.
    nonce = randomBytes(12).toString('hex')
    return await service.call(id, 'executeCode', { code: preamble(nonce), language: 'python' }, signal)
  }
  const result = await patiently(install, signal, THROTTLED_MAX.before)
  const [base = '', last] = result.stdout.trimEnd().split(/\r?\n/).slice(-2)
  if (result.exitCode !== 0 || result.isError || last !== readyMarker(nonce) || !isPlainPath(base))
    throw new CofferdamError(
      'sandbox_open_failed',
      `AgentCore: the session is not ready: ${lastLine(result)}`,
      {
        details: { reason: `readiness:${result.exitCode === 0 && !result.isError ? 'marker' : 'failed'}` },
      },
    )
  return createCellSession(service, id, base)
}

/** Absolute, and nothing that a shell would read otherwise. */
const isPlainPath = (path: string): boolean => /^\/[\w./-]{1,500}$/.test(path)

const lastLine = ({ stderr, exitCode }: ToolResult): string =>
  stderr.trimEnd().split('\n').at(-1)?.slice(0, 200) || `exit code ${exitCode}, without its marker`

/** A session that was proven ready before, by this worker or another. */
export function createCellSession(service: DataPlane, id: SessionPlace, base: string): CellSession {
  const tag = randomBytes(6).toString('hex')
  let isSound = true
  let uploads = 0

  async function call(
    name: ToolName,
    given: ToolArguments,
    signal: AbortSignal,
    more: CallMore = {},
  ): Promise<ToolResult> {
    const calling = { turnMs: TURN_MS, ...more }
    return await patiently(
      async () => await service.call(id, name, given, signal, calling),
      signal,
      THROTTLED_MAX.after,
    )
  }

  /** Nothing of the execution has begun: nobody waits as long as for a program. */
  const callBefore: typeof call = async (name, given, signal) =>
    await patiently(async () => await service.call(id, name, given, signal), signal, THROTTLED_MAX.before)

  async function answered(result: ToolResult, asked: string, most: number): Promise<Answer | null> {
    const answer = await readAnswer(result, asked, most)
    if (answer?.head.failed === undefined) return answer
    throw cellFailure(answer.head)
  }

  async function ask(request: object, most: number, signal: AbortSignal, by = call): Promise<Answer> {
    const asked = randomBytes(12).toString('hex')
    const given = { code: cellCode({ ...request, nonce: asked }), language: 'python' } as const
    const answer = await answered(await by('executeCode', given, signal), asked, most)
    if (answer !== null) return answer
    isSound = false
    throw new CofferdamError('sandbox_lost', 'AgentCore: the interpreter of the session is gone.')
  }

  async function carry(
    { once, carrier, softMs, graceMs, job, onLive, traceParent }: ProgramRequest,
    asked: string,
    signal: AbortSignal,
    onStarted: () => void,
  ): Promise<ToolResult> {
    const request = { ...job, once, nonce: asked, live: carrier === 'task' ? 0 : LIVE_MAX }
    const lines = createLiveLines(asked)
    const onText: OnText = async (source, text) => {
      onStarted()
      for (const piece of lines.take(source, text)) await onLive(piece)
    }
    async function heard(tool: ToolName, given: ToolArguments): Promise<ToolResult> {
      const result = await call(tool, given, signal, { onText, traceParent })
      // The service strips the newline at the end of a stream, where the last line of a program that died may stand.
      for (const source of ['stdout', 'stderr'] as const) await onText(source, '\n')
      return result
    }
    if (carrier === 'cell') return await heard('executeCode', { code: cellCode(request), language: 'python' })
    // The cell stops its program itself; this is for one that cannot.
    const limits = { softS: Math.ceil((softMs + graceMs) / 1000) + 1, graceS: 2 }
    const command = cellCommand(base, request, limits)
    const given = command.length <= COMMAND_MAX ? command : await asFile(command, signal)
    if (carrier === 'command') return await heard('executeCommand', { command: given })
    return await runInBackground({ call, ask }, { command: given, onLive, traceParent, onStarted }, signal)
  }

  async function asFile(command: string, signal: AbortSignal): Promise<string> {
    const path = `cofferdam-${tag}-${(uploads += 1)}.sh`
    // It holds the program's variables, and a session that is kept serves another execution.
    const blob = Buffer.from(`rm -f "$0"\n${command}`)
    await call('writeFiles', { content: [{ path, blob }] }, signal)
    return `sh ${posix.dirname(base)}/${path}`
  }

  /** What became of a program whose answer was lost. Null: it never began. */
  async function outcome(once: string, most: number, signal: AbortSignal): Promise<Answer | null> {
    for (let wait = OUTCOME_POLL_MS.first; ; wait = Math.min(wait * 1.5, OUTCOME_POLL_MS.longest)) {
      const answer = await askAgain({ op: 'outcome', once }, most, signal)
      if (answer.head.outcome === undefined) return answer
      if (answer.head.outcome === 'not_begun') return null
      await pause(wait, signal)
    }
  }

  /** The same question after an answer that was lost. */
  const askAgain: typeof ask = async (request, most, signal, by) =>
    await despiteLosses(async () => await ask(request, most, signal, by), signal)

  return {
    id,
    base,
    get isSound() {
      return isSound
    },
    spoil() {
      isSound = false
    },

    async upload(files, signal) {
      const archive = `cofferdam-${tag}-${(uploads += 1)}.files`
      const head = files.map(({ path, bytes, executable }) => ({
        path,
        size: bytes.length,
        executable: executable === true,
      }))
      const blob = Buffer.concat([
        Buffer.from(`${JSON.stringify(head)}\n`),
        ...files.map(({ bytes }) => bytes),
      ])
      const written = async (): Promise<ToolResult> =>
        await call('writeFiles', { content: [{ path: archive, blob }] }, signal)
      const { isError, stderr } = await despiteLosses(written, signal).catch((error: unknown) => {
        signal.throwIfAborted()
        throw refusedProgram(error)
      })
      if (isError)
        throw new CofferdamError('internal', `AgentCore: files were not taken: ${stderr.slice(0, 200)}`)
      return archive
    },

    async ask(request, most, signal) {
      // Files that came are put into their places by the first one, and what was removed is not there for the second.
      const changes = request.archive !== null || request.op === 'remove'
      try {
        return await (changes ? ask : askAgain)(request, most, signal)
      } catch (error) {
        signal.throwIfAborted()
        throw lostSandbox(error)
      }
    },

    async isAlive(signal) {
      const inTime = AbortSignal.any([signal, AbortSignal.timeout(SIGN_MS)])
      try {
        await askAgain(SIGN_OF_LIFE, SIGN_MAX, inTime, callBefore)
        return true
      } catch (error) {
        const failure = openFailure(error, 'sign_of_life')
        // It was not asked: rate, rights and keys are nothing of the session's.
        const isUnasked = isRefused(error) || failure === error
        if (isUnasked && failure.code === 'backend_unavailable') throw failure
        return false
      }
    },

    async run(request, signal) {
      // An answer that was lost is asked for: the cell keeps it. What never began is begun, once more.
      // Since an event came, or a task its id: a refusal says nothing of the program any more.
      let isStarted = false
      const onStarted = (): void => void (isStarted = true)
      for (let attempt = 1; ; attempt += 1) {
        const asked = randomBytes(12).toString('hex')
        try {
          const result = await carry(request, asked, signal, onStarted)
          const answer = await answered(result, asked, request.maxOutput)
          // Begun by an earlier try of this call, which a throttled stream did not tell.
          if (answer?.head.outcome !== undefined) throw new Error('begun before')
          const [stdout, stderr] = [withoutLines(result.stdout, asked), withoutLines(result.stderr, asked)]
          return { answer, result: { ...result, stdout, stderr } }
        } catch (error) {
          isSound = false
          signal.throwIfAborted()
          if (!isStarted && isNotBegun(error)) throw refusedProgram(error)
          if (isCofferdamError(error) && !isLostAnswer(error)) throw error
          const answer = await outcome(request.once, request.maxOutput, signal).catch(() => {
            signal.throwIfAborted()
            throw lostSandbox(error)
          })
          if (answer !== null) return { answer, result: null }
          // The cell says so, twice.
          if (attempt === 2) throw refusedProgram(error)
        }
      }
    },
  }
}

function cellFailure({ failed, message = '' }: Answer['head']): CofferdamError {
  const code =
    failed === 'not_found' || failed === 'payload_too_large' || failed === 'invalid_request'
      ? failed
      : 'internal'
  return new CofferdamError(code, message.slice(0, 300))
}
