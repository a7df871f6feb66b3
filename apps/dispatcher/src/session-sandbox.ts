/**
 * The sandbox of one session, while a work item serves it. Everything that is done with it is an execution.
 *
 *   prepare ──> ready ──call──> ready ──call──> …          outputs are collected when it is quiet,
 *                 │                                      and at the end
 *                 └──call: its sandbox is gone──> prepare ──the same call──> ready
 *
 * The idempotency key of a call is the ID of its tool use. Whoever makes a call again, after a crash or as
 * the next holder of the item, gets the result of the first execution.
 */
import type { Client } from '@cofferdam/client'
import {
  isCofferdamError,
  SURROUNDINGS,
  unlessAborted,
  type ExecutionId,
  type ExecutionResult,
  type FileIn,
  type Program,
} from '@cofferdam/contract'
import type { Logger } from '@cofferdam/telemetry'
import type { EnvironmentConfig } from './config.ts'
import { acceptOnce, resultOf, runWithin } from './run-execution.ts'
import type { Notice, SessionHold } from './session-holder.ts'
import { SESSION_FOLDERS, sessionRequests } from './session-requests.ts'
import type { ToolAnswer, ToolPlan } from './tools/tool.ts'

export interface SessionSandboxDeps {
  client: Client
  environment: EnvironmentConfig
  sessionId: string
  logger: Logger
  /** A new sandbox was ready after so many milliseconds. */
  onReady(tookMs: number): void
  /** Remembers which sandbox the session had, and which call's answer tells the agent about a new one. */
  hold: Pick<SessionHold, 'rememberSandbox' | 'tellWith'>
}

/** One tool call. */
export interface Call {
  toolUseId: string
  plan: ToolPlan
  signal: AbortSignal
  /**
   * Whether the execution of an aborted call must be cancelled. If only the lease was lost, it goes on, and
   * the next holder waits for it.
   */
  isStopped(): boolean
}

export interface SessionSandbox {
  /** Writes files into the sandbox, now and whenever it is made again. */
  provide(files: readonly FileIn[]): Promise<void>
  /** The sandbox's work directory. Usable once `provide` has resolved. */
  readonly workdir: string
  /** Resolves for every failure of the program or the platform. Rejects only after the signal aborted. */
  call(agentId: string, call: Call): Promise<ToolAnswer>
  /** Runs a command of ours, with an input, in the sandbox that the session has. Null if it has none. */
  inspect(argv: readonly string[], stdin: string): Promise<ExecutionResult | null>
  /** Saves the outputs as artifacts, if a call was made since the last time. Never rejects. */
  collect(): Promise<void>
  /** Destroys the sandbox. */
  end(): Promise<void>
}

/** A cold sandbox in a busy cluster takes most of a minute: 41–50 s on GKE for 75, as users report. */
const PREPARE_MS = 180_000
/** An operation waits behind the call that runs, at most 120 s. */
const OPERATION_MS = 150_000
/** The SDK gives a call up after 120 s (SessionToolRunner.ts, TOOL_TIMEOUT_MS) and wants an answer. */
const GIVEN_UP_MS = 119_000
/** An execution that was cancelled, or is at its deadline, ends within its grace of 5 s. */
const ENDING_MS = 10_000

const REPLACED =
  '[This session has a new sandbox since the last call. ' +
  'Files, variables and processes of earlier calls are gone.]\n'

export function openSessionSandbox(deps: SessionSandboxDeps): SessionSandbox {
  const { client, environment, sessionId, logger } = deps
  const requests = sessionRequests(environment, sessionId)
  let provided: readonly FileIn[] = []
  let backend: string | null = null
  let workdir: string = SURROUNDINGS.workFolder
  /** True at first, because an earlier dispatcher may have been killed before it saved the outputs. */
  let hasNewCalls = true
  let notice: Notice = null
  let prepared: Promise<ExecutionResult> | null = null

  /**
   * Calls wait until the sandbox is prepared. If that is refused or fails, they are answered with the reason,
   * and the next call tries again.
   */
  const prepare = (): Promise<ExecutionResult> => {
    const startedMs = performance.now()
    const running = runWithin(client, requests.prepare(provided), PREPARE_MS).then(async (result) => {
      if (!result.ok) prepared = null
      else {
        backend = result.backend
        workdir = result.stdout.trim() || workdir
        notice = await deps.hold.rememberSandbox(result.session?.id ?? '')
      }
      if (result.session?.fresh === true) deps.onReady(performance.now() - startedMs)
      return result
    })
    running.catch((error: unknown) => {
      prepared = null
      logger.warn({ err: error, session_id: sessionId }, 'the sandbox of a session was not prepared')
    })
    prepared = running
    return running
  }

  /** Null if the session has no sandbox. */
  const operate = async (op: 'collect' | 'end', path?: string): Promise<ExecutionResult | null> => {
    // If the sandbox is still being prepared, waits for it. Otherwise it would be left behind.
    await prepared?.catch(() => undefined)
    return backend === null
      ? null
      : await runWithin(client, requests.operate(op, backend, path), OPERATION_MS)
  }

  /** The result of the call. `onAccepted` is told the execution that may have to be cancelled. */
  const carryOut = async (
    agentId: string,
    { toolUseId, plan, signal }: Call,
    onAccepted: (id: ExecutionId) => void,
  ): Promise<ExecutionResult> => {
    const run = async (key: string, program: Program): Promise<ExecutionResult> => {
      const request = requests.call(key, toolUseId, agentId, { ...plan, program })
      const id = await acceptOnce(client, request, signal)
      onAccepted(id)
      return resultOf(client, id, signal)
    }
    const attempt = async (key: string): Promise<ExecutionResult> => {
      if (plan.before !== undefined) await run(`${key}:before`, plan.before)
      return run(key, plan.program)
    }
    const ready = await unlessAborted(prepared ?? prepare(), signal)
    if (!ready.ok) return ready
    const result = await attempt(toolUseId)
    if (result.reason !== 'session_not_found') return result
    const again = await unlessAborted(prepare(), signal)
    return again.ok ? await attempt(`${toolUseId}:2`) : again
  }

  void prepare()

  return {
    get workdir() {
      return workdir
    },

    async provide(files) {
      provided = files
      await prepared?.catch(() => undefined)
      if (files.length > 0) await prepare()
    },

    async call(agentId, call) {
      hasNewCalls = true
      const startedMs = performance.now()
      let accepted: ExecutionId | null = null
      try {
        const answer = call.plan.answer(await carryOut(agentId, call, (id) => (accepted = id)))
        if (notice === '') await deps.hold.tellWith((notice = call.toolUseId))
        if (notice !== call.toolUseId) return answer
        return { ...answer, text: REPLACED + answer.text }
      } catch (error) {
        if (!call.signal.aborted) return { text: refusalText(error), isError: true }
        if (accepted === null) throw error
        // If the SDK has given up the call, its execution is cancelled, because nobody would read the result.
        const isGivenUp = performance.now() - startedMs >= GIVEN_UP_MS
        if (isGivenUp || call.isStopped()) await client.cancel(accepted, 'the tool call was stopped')
        const result = await client.wait(accepted, { timeoutMs: ENDING_MS })
        if (result !== null) return call.plan.answer(result)
        throw error
      }
    },

    inspect: async (argv, stdin) =>
      backend === null ? null : await runWithin(client, requests.inspect(argv, stdin), OPERATION_MS),

    async collect() {
      if (!hasNewCalls) return
      hasNewCalls = false
      try {
        const result = await operate('collect', SESSION_FOLDERS.outputs)
        if (result === null || result.ok) return
        logger.warn({ session_id: sessionId, reason: result.reason }, 'outputs of a session were not kept')
      } catch (error) {
        logger.warn({ session_id: sessionId, err: error }, 'outputs of a session were not kept')
      }
      hasNewCalls = true
    },

    async end() {
      await operate('end')
    },
  }
}

/** What the agent reads when the queue refuses a call, for example if its tenant has too many waiting. */
function refusalText(error: unknown): string {
  if (!isCofferdamError(error)) throw error
  return `The call was not accepted (${error.code}): ${error.message}`
}
