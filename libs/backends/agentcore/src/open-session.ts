/**
 * Starts a session and waits until its cell is ready.
 *
 *   start ──preamble──▶ proven ready        not proven: stop, try once with a fresh session, then throw
 *
 * No user code has run until then, so every failure may be retried elsewhere. After an abort, this still
 * waits for the answer of Start, because a session that was made must be stopped.
 */
import type { BackendLogger } from '@cofferdam/sandbox/backend'
import type { LeftBehind } from '@cofferdam/backend-remote'
import type { CellSession } from './cell-session.ts'
import { isGone, isNotBegun, isRefused, openFailure } from './classify-failure.ts'
import type { DataPlane, SessionPlace } from './data-plane.ts'
import { proveReady } from './prove-ready.ts'
import { ATTEMPTS } from './retry-calls.ts'
import { clientToken } from './session-name.ts'

/** A Start that the service has not carried out by then is never carried out. */
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
  /** `left` remembers a session that could not be stopped. */
  service: DataPlane
  left: LeftBehind
  readyMs: number
  logger: BackendLogger
}

/** Throws `backend_unavailable`, `sandbox_open_failed` or the signal's reason, and leaves no session. */
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
    // Unless it was refused or got no turn in the rate, the session may exist despite the error.
    if (!isRefused(error) && !isNotBegun(error))
      await stopUnanswered({ service, left, logger }, interpreter, name)
    throw openFailure(error, 'session_start')
  }
}

/** Start may take effect now or later, so the session is searched until it cannot appear any more. */
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

/** Stops it. Logs a failure, because nobody waits for it and a later attempt stops the session. */
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
