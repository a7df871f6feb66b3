/** Requests to the cell of one session through the service's tools. Each has its own nonce and one answer. */
import { randomBytes } from 'node:crypto'
import type { ToolArguments, ToolName } from '@aws-sdk/client-bedrock-agentcore'
import { CofferdamError } from '@cofferdam/contract'
import { cellCode } from './cell-source.ts'
import type { ToolResult } from './consume-stream.ts'
import type { CallMore, DataPlane, SessionPlace } from './data-plane.ts'
import { retryLost, retryThrottled, ATTEMPTS } from './retry-calls.ts'
import { readAnswer, type Answer } from './read-answer.ts'

/**
 * Longest wait for the account's rate limit. With `before` the wait is at most 10 s, because another backend
 * may serve instead.
 */
const TURN_MS = 60_000

export interface CellRequests {
  /** Calls a tool once. */
  call(name: ToolName, given: ToolArguments, signal: AbortSignal, more?: CallMore): Promise<ToolResult>
  /**
   * Sends one request. `most` bounds the bytes of the answer; `before`: nothing of the execution has begun.
   * Throws `sandbox_lost` if the session's Python process is gone, the cell's own error, and what calls
   * throw.
   */
  ask(request: object, most: number, signal: AbortSignal, when?: 'before'): Promise<Answer>
  /** Like `ask`, but sends the request again, with a new nonce, if its answer was lost. */
  askAgain: CellRequests['ask']
  /** Finds the answer in a tool's output, or returns null. Throws the error of a failed request. */
  answered(result: ToolResult, nonce: string, most: number): Promise<Answer | null>
  /** A unique path for a file of the cell, beside the cell's folder. */
  fileFor(what: 'sh' | 'files'): string
}

export const newNonce = (): string => randomBytes(12).toString('hex')

/**
 * Requests to the cell of one session. `onGone` is called when the session's Python process is found dead.
 */
export function createCellRequests(service: DataPlane, id: SessionPlace, onGone: () => void): CellRequests {
  const tag = randomBytes(6).toString('hex')
  let files = 0

  const call: CellRequests['call'] = async (name, given, signal, more) =>
    await retryThrottled(
      async () => await service.call(id, name, given, signal, { turnMs: TURN_MS, ...more }),
      signal,
      ATTEMPTS.throttledAfterBegin,
    )

  const callBefore: typeof call = async (name, given, signal) =>
    await retryThrottled(
      async () => await service.call(id, name, given, signal),
      signal,
      ATTEMPTS.throttledBeforeBegin,
    )

  const answered: CellRequests['answered'] = async (result, nonce, most) => {
    const answer = await readAnswer(result, nonce, most)
    if (answer?.head.failed === undefined) return answer
    throw cellFailure(answer.head)
  }

  const ask: CellRequests['ask'] = async (request, most, signal, when) => {
    const nonce = newNonce()
    const given = { code: cellCode({ ...request, nonce }), language: 'python' } as const
    const by = when === 'before' ? callBefore : call
    const answer = await answered(await by('executeCode', given, signal), nonce, most)
    if (answer !== null) return answer
    onGone()
    throw new CofferdamError('sandbox_lost', 'AgentCore: the interpreter of the session is gone.')
  }

  return {
    call,
    ask,
    askAgain: async (request, most, signal, when) =>
      await retryLost(async () => await ask(request, most, signal, when), signal),
    answered,
    fileFor: (what) => `cofferdam-${tag}-${(files += 1)}.${what}`,
  }
}

function cellFailure({ failed, message = '' }: Answer['head']): CofferdamError {
  const code =
    failed === 'not_found' || failed === 'payload_too_large' || failed === 'invalid_request'
      ? failed
      : 'internal'
  return new CofferdamError(code, message.slice(0, 300))
}
