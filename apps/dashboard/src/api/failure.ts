/** What the API says when it refuses a call, or what happened on the way to it. */
import type { ErrorBody } from '@cofferdam/client'

interface FailureFacts {
  code: string
  status: number
  message: string
  hint?: string
  traceId?: string
  details?: Readonly<Record<string, unknown>>
}

/**
 * A failed call. `code` is one of docs/errors.md, `unreachable` without an answer, or `unexpected` for an
 * answer in another form.
 */
export class Failure extends Error {
  readonly code: string
  readonly status: number
  readonly hint: string
  readonly traceId: string | null
  /** Facts for programs, by code. Empty without any. */
  readonly details: Readonly<Record<string, unknown>>

  constructor(facts: FailureFacts) {
    super(facts.message)
    this.code = facts.code
    this.status = facts.status
    this.hint = facts.hint ?? ''
    this.traceId = facts.traceId ?? null
    this.details = facts.details ?? {}
  }
}

const isErrorBody = (body: unknown): body is ErrorBody =>
  typeof body === 'object' &&
  body !== null &&
  'error' in body &&
  typeof body.error === 'object' &&
  body.error !== null &&
  'code' in body.error

/** The failure that an answer other than 2xx tells. Its body need not be ours: a proxy may have answered. */
export async function failureOf(answer: Response): Promise<Failure> {
  const body: unknown = await answer.json().catch(() => null)
  if (!isErrorBody(body))
    return new Failure({
      code: 'unexpected',
      status: answer.status,
      message: `The server answered ${answer.status} ${answer.statusText}.`,
    })
  const { code, message, hint, trace_id: traceId, details = {} } = body.error
  const more = { details, ...(traceId === undefined ? {} : { traceId }) }
  return new Failure({ code, status: answer.status, message, hint, ...more })
}

/** The failure behind anything that was thrown. */
export const asFailure = (thrown: unknown): Failure =>
  thrown instanceof Failure
    ? thrown
    : new Failure({
        code: 'unreachable',
        status: 0,
        message: 'The server cannot be reached.',
        hint: 'Check the network, and that the API runs. The page tries again by itself.',
      })
