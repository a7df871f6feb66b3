/**
 * Starts a session and waits until its cell (our program in the session) is ready.
 *
 *   start ──preamble──▶ proven ready        not proven: stop, try once with a fresh session, then throw
 *
 * No user code has run until then, so every failure may be retried elsewhere. After an abort, this still
 * waits for the answer of Start, because a session that was made must be stopped.
 */
import { CofferdamError } from '@cofferdam/contract'
import type { BackendLogger } from '@cofferdam/sandbox/backend'
import type { LeftBehind } from '@cofferdam/backend-remote'
import { newNonce } from './cell-requests.ts'
import { type CellSession, createCellSession } from './cell-session.ts'
import { preamble, readyMarker } from './cell-source.ts'
import { isGone, isNotBegun, isRefused, openFailure, isConflict, isThrottled } from './classify-failure.ts'
import type { ToolResult } from './consume-stream.ts'
import type { DataPlane, SessionPlace } from './data-plane.ts'
import { ATTEMPTS, retryThrottled } from './retry-calls.ts'
import { clientToken } from './session-name.ts'

/** A Start that the service has not carried out after this time is never carried out. */
const COMES_MS = 600_000

export interface StartWish {
  interpreter: string
  name: string
  seconds: number
  /** Parts of the client token: the same for the same sandbox, however often Start is sent. */
  token: readonly (string | number)[]
  traceParent?: string | undefined
}

export interface OpenParts {
  /** Its `stop` remembers in `left` the sessions that it could not stop. */
  service: DataPlane
  left: LeftBehind
  readyMs: number
  logger: BackendLogger
}

/**
 * Throws `backend_unavailable`, `sandbox_open_failed`, `protocol_violation` or the signal's reason. When it
 * throws, every session that it started is stopped, now or later.
 */
export async function openSession(
  parts: OpenParts,
  wish: StartWish,
  signal: AbortSignal,
): Promise<CellSession> {
  for (let attempt = 1; ; attempt += 1) {
    signal.throwIfAborted()
    const id = await start(parts, wish, attempt)
    try {
      signal.throwIfAborted()
      return await proveReady(
        parts.service,
        id,
        AbortSignal.any([signal, AbortSignal.timeout(parts.readyMs)]),
      )
    } catch (error) {
      await discard(parts, id)
      signal.throwIfAborted()
      if (attempt === ATTEMPTS.sessions) throw openFailure(error, 'readiness')
      parts.logger.info(
        { err: error, session: id.session },
        'agentcore: a session was not ready; a fresh one is tried',
      )
    }
  }
}

async function start(
  { service, left, logger }: OpenParts,
  wish: StartWish,
  attempt: number,
): Promise<SessionPlace> {
  const { interpreter, name, seconds, traceParent } = wish
  const token = clientToken(...wish.token, attempt)
  try {
    return await service.start({ interpreter, name, seconds, token, traceParent })
  } catch (error) {
    // Unless the call was refused or held back by the rate limit, the session may exist despite the error.
    if (!isRefused(error) && !isNotBegun(error))
      await stopUnanswered({ service, left, logger }, interpreter, name)
    throw openFailure(error, 'session_start')
  }
}

/** Start may take effect now or later, so we search for the session until it cannot appear any more. */
async function stopUnanswered(
  { service, left, logger }: Pick<OpenParts, 'service' | 'left' | 'logger'>,
  interpreter: string,
  name: string,
): Promise<void> {
  const stop = (): Promise<number> => stopByName(service, interpreter, name)
  await left
    .end(name, stop, { comesUntilMs: Date.now() + COMES_MS })
    .catch((cause: unknown) =>
      logger.info({ err: cause, name }, 'agentcore: a session whose start failed may run on'),
    )
}

/** Stops a session. Logs a failure instead of throwing it, because a later attempt stops the session. */
export async function discard({ service, logger }: OpenParts, id: SessionPlace): Promise<void> {
  await service
    .stop(id)
    .catch((error: unknown) =>
      logger.warn(
        { err: error, session: id.session },
        'agentcore: a session was not stopped; it is asked for again',
      ),
    )
}

/** Stops all sessions with a name and returns their number; 0 if the interpreter is gone. */
export async function stopByName(service: DataPlane, interpreter: string, name: string): Promise<number> {
  const listed = await service.list(interpreter).catch((error: unknown) => {
    if (isGone(error)) return []
    throw error
  })
  const found = listed.filter((one) => one.name === name)
  const stopped = await Promise.all(found.map((one) => service.stop(one)))
  return stopped.filter(Boolean).length
}

const isForNow = (error: unknown): boolean => isThrottled(error) || isGone(error) || isConflict(error)

/**
 * The first call of a session installs the cell, our program. Ready means: exit code 0 or none, no error, and
 * as last lines the cell's path and the marker. Throws otherwise.
 */
async function proveReady(service: DataPlane, id: SessionPlace, signal: AbortSignal): Promise<CellSession> {
  let nonce = ''
  const install = async (): Promise<ToolResult> => {
    // Each attempt needs a new nonce, and so a new folder: a throttled stream does not tell whether the
    // preamble was run.
    nonce = newNonce()
    return await service.call(id, 'executeCode', { code: preamble(nonce), language: 'python' }, signal)
  }
  const result = await retryThrottled(install, signal, ATTEMPTS.firstCall, isForNow)
  const [base = '', last] = result.stdout.trimEnd().split(/\r?\n/).slice(-2)
  // A missing exit code is accepted: the marker proves more than the code.
  const isFailed = (result.exitCode ?? 0) !== 0 || result.isError
  if (isFailed || last !== readyMarker(nonce) || !isPlainPath(base))
    throw new CofferdamError(
      'sandbox_open_failed',
      `AgentCore: the session is not ready: ${lastLine(result)}`,
      {
        details: { reason: `readiness:${isFailed ? 'failed' : 'marker'}` },
      },
    )
  return createCellSession(service, id, base)
}

/** An absolute path without characters that a shell would interpret. */
const isPlainPath = (path: string): boolean => /^\/[\w./-]{1,500}$/.test(path)

const lastLine = ({ stderr, exitCode }: ToolResult): string =>
  stderr.trimEnd().split('\n').at(-1)?.slice(0, 200) || `exit code ${exitCode}, without its marker`
