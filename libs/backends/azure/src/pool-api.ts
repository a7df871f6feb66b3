/**
 * Calls to one session pool, with token and retries. Errors say whether anything was done. A call whose
 * answer was lost is repeated only if that has no second effect.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, unlessAborted } from '@cofferdam/contract'
import { createEndingSessions } from './ending-sessions.ts'
import {
  LostAnswer,
  request,
  sessionEnded,
  type PoolAnswer,
  type PoolCall,
  type TimedAnswer,
} from './pool-call.ts'
import { refusalOf, saysGone } from './pool-refusals.ts'
import { SESSIONS_AUDIENCE, type Tokens } from './tokens.ts'

const ATTEMPTS = 4
const PAUSE_MS = 250
/** The longest pause if the service names none. */
const LONGEST_OWN_PAUSE_MS = 5000
/**
 * The longest pause that a call waits, unless `patienceMs` allows more. Beyond it the call fails, and the
 * execution goes back to the queue.
 */
const LONGEST_PAUSE_MS = 10_000
/** Retry for this long while a program runs. Its pod ends after 90 s without a call. */
export const RUNNING_PATIENCE_MS = 60_000
/** The api-version of the management calls of both kinds of pool. */
export const MANAGEMENT_VERSION = '2025-10-02-preview'
/** A new role takes minutes until it applies everywhere. */
const ROLE_SPREADS_MS = 10 * 60_000
const ROLE_PAUSE_MS = 30_000

export interface PoolApi {
  readonly endpoint: string
  /**
   * Resolves for 2xx and a container's own answers (`isOwn`). Throws `LostAnswer`, the error of `refusalOf`,
   * `backend_unavailable` without a token, `sandbox_lost` for an ended session, or the reason of `signal`.
   */
  call(this: void, call: PoolCall, isOwn?: (answer: PoolAnswer) => boolean): Promise<PoolAnswer>
  /**
   * Ends a session with `work`. First waits up to 3 s for its calls in flight, but not for polls. A call that
   * arrives later would silently create another session, so `work` may be repeated. `work` resolves to false
   * if there was no session.
   */
  ending(identifier: string, work: () => Promise<boolean>): Promise<boolean>
  /** Repeats the end of sessions that late calls may have created. Resolves when that is done. */
  settle(): Promise<void>
}

/** Creates the client of one pool's management endpoint. */
export function createPoolApi(parts: {
  endpoint: string
  kind: 'container' | 'interpreter'
  tokens: Tokens
  timeoutMs: number
  /** When the role was granted, in epoch milliseconds. Null: 403 is final. */
  roleGrantedAtMs: number | null
  rolePauseMs?: number
  /** Called when a repeated end of a session fails. A late call may have created that session again. */
  onUnended?: (identifier: string, error: unknown) => void
}): PoolApi {
  const { endpoint, tokens } = parts
  const ending = createEndingSessions(parts.onUnended ?? (() => undefined))

  /**
   * Makes one request. It continues if its caller gives up. If its session is ended, only a poll is stopped.
   */
  async function once(call: PoolCall, token: string): Promise<TimedAnswer> {
    call.signal?.throwIfAborted()
    const stop = new AbortController()
    const answer = request(parts, call, token, stop.signal)
    const { identifier, isPoll = false, signal } = call
    if (identifier !== undefined) ending.follow(identifier, { isPoll, stop, answer })
    return signal === undefined ? await answer : await unlessAborted(answer, signal)
  }

  /** Throws `sandbox_lost` if the session is gone. The next call reports any other problem. */
  async function refuseGone({ identifier, allocates, signal }: PoolCall): Promise<void> {
    if (identifier === undefined || allocates === true) return
    const isContainer = parts.kind === 'container'
    const look: PoolCall = {
      method: isContainer ? 'POST' : 'GET',
      path: isContainer ? '/.management/getSession' : '/session',
      query: { 'api-version': MANAGEMENT_VERSION, identifier },
      isRepeatable: false,
      ...(signal === undefined ? {} : { signal }),
    }
    await api.call(look).catch((error: unknown) => {
      if (saysGone(error))
        throw new CofferdamError('sandbox_lost', 'Azure: the session is gone.', { cause: error })
    })
  }

  const api: PoolApi = {
    endpoint,
    ending: (identifier, work) => ending.end(identifier, work),
    settle: () => ending.settle(),
    async call(call, isOwn = () => false) {
      const { identifier, signal = new AbortController().signal } = call
      if (identifier !== undefined && call.allocates === true) ending.begin(identifier)
      let hasNewToken = false
      const patientUntil = performance.now() + (call.patienceMs ?? 0)
      const mayWait = (attempt: number, ms: number): boolean =>
        (attempt < ATTEMPTS && ms <= LONGEST_PAUSE_MS) || performance.now() + ms < patientUntil
      for (let attempt = 1; ; attempt += 1) {
        const token = await tokens.get(SESSIONS_AUDIENCE, signal)
        if (identifier !== undefined && ending.isOver(identifier)) throw sessionEnded()
        let answer: TimedAnswer
        try {
          answer = await once(call, token)
        } catch (error) {
          const waitMs = Math.min(PAUSE_MS * attempt, LONGEST_OWN_PAUSE_MS)
          if (!(error instanceof LostAnswer) || !call.isRepeatable || !mayWait(attempt, waitMs)) throw error
          await refuseGone(call)
          await pause(waitMs, signal)
          continue
        }
        if ((answer.status >= 200 && answer.status < 300) || isOwn(answer)) {
          if (identifier !== undefined && call.allocates === true) ending.began(identifier)
          return answer
        }
        if (answer.status === 401 && !hasNewToken) {
          hasNewToken = true
          tokens.refused(SESSIONS_AUDIENCE, token)
          continue
        }
        if (answer.status === 403 && isSpreading(parts.roleGrantedAtMs)) {
          tokens.refused(SESSIONS_AUDIENCE, token)
          await pause(parts.rolePauseMs ?? ROLE_PAUSE_MS, signal)
          // Not counted as an attempt, because the time since the grant bounds these retries.
          attempt -= 1
          continue
        }
        const waitMs = answer.retryAfterMs ?? Math.min(PAUSE_MS * 2 ** attempt, LONGEST_OWN_PAUSE_MS)
        // With 429 the service did nothing. A server error does not say that, so repeat only a repeatable
        // call.
        const mayRepeat = answer.status === 429 || (answer.status >= 500 && call.isRepeatable)
        if (!mayRepeat || !mayWait(attempt, waitMs)) throw refusalOf(answer, call)
        if (answer.status >= 500) await refuseGone(call)
        await pause(waitMs, signal)
      }
    },
  }
  return api
}

const isSpreading = (grantedAtMs: number | null): boolean =>
  grantedAtMs !== null && Date.now() - grantedAtMs < ROLE_SPREADS_MS

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => signal.throwIfAborted())
}
