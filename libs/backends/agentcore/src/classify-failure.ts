/**
 * Tells what a failed call means by the class of its error, because the SDK does not set `$retryable` and
 * gives no status to exceptions within a stream. Only a call refused before it began has certainly run no
 * program.
 *
 *    class                                    refused   for `open`
 *    ThrottlingException                      yes       backend_unavailable
 *    ServiceQuotaExceededException            yes       backend_unavailable
 *    AccessDeniedException                    yes       backend_unavailable   with AWS's text: action and ARN
 *    ValidationException                      yes       sandbox_open_failed   with its reason and field names
 *    ResourceNotFoundException                yes       sandbox_open_failed   interpreter or session is gone
 *    keys unknown, expired or wrong           yes       backend_unavailable   found by the service or the SDK
 *    ConflictException                        no        sandbox_open_failed   perhaps the session has expired
 *    InternalServerException, 5xx             no        backend_unavailable
 *    connection lost, cut or empty stream     no        backend_unavailable
 */
import { CofferdamError, isCofferdamError, type ErrorCode } from '@cofferdam/contract'
import type { Refused } from './hide-keys.ts'

interface Row {
  /**
   * Nothing was begun, so the call may be repeated or made elsewhere. Not certain within a stream
   * (`isNotBegun`).
   */
  refused: boolean
  code: ErrorCode
}

const TABLE: Record<string, Row> = {
  ThrottlingException: { refused: true, code: 'backend_unavailable' },
  ServiceQuotaExceededException: { refused: true, code: 'backend_unavailable' },
  AccessDeniedException: { refused: true, code: 'backend_unavailable' },
  ValidationException: { refused: true, code: 'sandbox_open_failed' },
  ResourceNotFoundException: { refused: true, code: 'sandbox_open_failed' },
  ConflictException: { refused: false, code: 'sandbox_open_failed' },
  UnauthorizedException: { refused: true, code: 'backend_unavailable' },
  UnrecognizedClientException: { refused: true, code: 'backend_unavailable' },
  InvalidSignatureException: { refused: true, code: 'backend_unavailable' },
  ExpiredTokenException: { refused: true, code: 'backend_unavailable' },
  CredentialsProviderError: { refused: true, code: 'backend_unavailable' },
}
const UNKNOWN: Row = { refused: false, code: 'backend_unavailable' }
/** Maximum length of AWS's text: enough for an action and an ARN. */
const SAID_MAX = 300

const rowOf = (error: unknown): Row => TABLE[nameOf(error)] ?? UNKNOWN

/** The error class's name; `Error` for anything else. */
export const nameOf = (error: unknown): string => (error instanceof Error ? error.name : 'Error')

/**
 * The call was refused over HTTP or held back by the rate limit, so nothing of it has begun. Exceptions
 * within a stream do not count. Nor does a missing session, which may have ended while the call ran.
 */
export const isNotBegun = (error: unknown): boolean =>
  isCofferdamError(error)
    ? error.code === 'backend_unavailable'
    : isRefused(error) && !isGone(error) && refusalOf(error)?.status !== undefined

/** The outcome of the call is unknown. */
export const isLostAnswer = (error: unknown): boolean =>
  isCofferdamError(error) ? error.details['reason'] === 'empty_stream' : !isGone(error) && !isNotBegun(error)

/** The call has ended without the cell's complete answer. */
export const isUnanswered = (error: unknown): boolean =>
  isCofferdamError(error) && ['no_answer', 'cut_answer'].includes(String(error.details['reason']))

/** The error's class says that the call was refused. Within a stream, something may have begun before. */
export const isRefused = (error: unknown): boolean => rowOf(error).refused

/** Refused for now; the same call may succeed in a moment. */
export const isThrottled = (error: unknown): boolean => nameOf(error) === 'ThrottlingException'

/** The account is at its quota or its rate. Both are temporary. */
const isFull = (error: unknown): boolean =>
  isThrottled(error) || nameOf(error) === 'ServiceQuotaExceededException'

/** Another operation on the session is in progress. */
export const isConflict = (error: unknown): boolean => nameOf(error) === 'ConflictException'

/** The session or interpreter does not exist, or no longer exists. */
export const isGone = (error: unknown): boolean => nameOf(error) === 'ResourceNotFoundException'

/** The error of `open`: the program has certainly not begun. */
export function openFailure(error: unknown, step: string): CofferdamError {
  if (isCofferdamError(error) && error.code !== 'sandbox_lost') return error
  const { code } = rowOf(error)
  return new CofferdamError(code, `AgentCore: ${step}: ${said(error)}`, {
    cause: error,
    details: {
      ...refusalOf(error),
      reason: `${step}:${nameOf(error)}`,
      ...(isFull(error) ? { full: true } : {}),
    },
  })
}

/** The error of a call in an open sandbox: the program in it is lost. */
export function lostSandbox(error: unknown): CofferdamError {
  if (isCofferdamError(error)) return error
  return new CofferdamError('sandbox_lost', `AgentCore: ${said(error)}`, {
    cause: error,
    details: { ...refusalOf(error), reason: lossReason(error) },
  })
}

/**
 * The error of a program that did not begin in an open sandbox. The executor acts on the reason `not_begun`.
 */
export function refusedProgram(error: unknown): CofferdamError {
  const words = isCofferdamError(error) ? error.message : `AgentCore: ${said(error)}`
  return new CofferdamError('sandbox_lost', words, {
    cause: error,
    details: { ...refusalOf(error), reason: 'not_begun', class: nameOf(error) },
  })
}

function lossReason(error: unknown): string {
  if (isGone(error)) return 'session_lost'
  const isTime = isConflict(error) && /time/i.test(String(error))
  return isTime ? 'session_timeout' : nameOf(error)
}

/** Details that the service added to the error. */
const refusalOf = (error: unknown): Refused['refusal'] => (error as Refused | null)?.refusal

/** AWS's text names actions and resources. Key IDs are cut out in any case. */
function said(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  return text.replaceAll(/\b(?:AKIA|ASIA)[A-Z0-9]{12,}/g, '<redacted>').slice(0, SAID_MAX)
}
