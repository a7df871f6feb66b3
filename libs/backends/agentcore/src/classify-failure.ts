/**
 * What a failed call means, by the class of its error (the SDK sets neither `$retryable` nor, for exceptions within a stream,
 * a status). Only what the service refused before it began anything is certain not to have run a program.
 *
 *   class                                    refused   for `open`
 *   ThrottlingException                      yes       backend_unavailable
 *   ServiceQuotaExceededException            yes       backend_unavailable
 *   AccessDeniedException                    yes       backend_unavailable   keeps what AWS says: it names action and ARN
 *   ValidationException                      yes       sandbox_open_failed   with its reason and the names of its fields
 *   ResourceNotFoundException                yes       sandbox_open_failed   the interpreter's or the session's
 *   keys unknown, expired or wrong           yes       backend_unavailable   by the service, or by the SDK before it asks
 *   ConflictException                        no        sandbox_open_failed   the session's time may be over: then the program's is
 *   InternalServerException, 5xx             no        backend_unavailable
 *   connection lost, cut or empty stream     no        backend_unavailable
 */
import { CofferdamError, isCofferdamError, type ErrorCode } from '@cofferdam/contract'
import type { Refused } from './hide-keys.ts'

interface Row {
  /** Nothing was begun: the call may be made again, or elsewhere. */
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
/** Of the text that AWS sends: enough for an action and an ARN. */
const SAID_MAX = 300

const rowOf = (error: unknown): Row => TABLE[nameOf(error)] ?? UNKNOWN

/** The class's name; `Error` for anything else. */
export const nameOf = (error: unknown): string => (error instanceof Error ? error.name : 'Error')

/**
 * The call was refused over HTTP, or had no turn in the rate: surely nothing of it was begun. Not so an exception within a stream, nor
 * a session that is gone: it may have gone while the call ran.
 */
export const isNotBegun = (error: unknown): boolean =>
  isCofferdamError(error)
    ? error.code === 'backend_unavailable'
    : isRefused(error) && !isGone(error) && refusalOf(error)?.status !== undefined

/** Nothing is known of what became of the call. */
export const isLostAnswer = (error: unknown): boolean =>
  isCofferdamError(error) ? error.details['reason'] === 'empty_stream' : !isGone(error) && !isNotBegun(error)

/** The call has ended, with nothing of its cell's answer or a beginning of it. */
export const isUnanswered = (error: unknown): boolean =>
  isCofferdamError(error) && ['no_answer', 'cut_answer'].includes(String(error.details['reason']))

/** The service said no before it began anything. */
export const isRefused = (error: unknown): boolean => rowOf(error).refused

/** Refused for now; the same call may be taken in a moment. */
export const isThrottled = (error: unknown): boolean => nameOf(error) === 'ThrottlingException'

/** The account has all that it may have, or asks too often: both pass. */
const isFull = (error: unknown): boolean =>
  isThrottled(error) || nameOf(error) === 'ServiceQuotaExceededException'

/** Something else is happening to the session. */
export const isConflict = (error: unknown): boolean => nameOf(error) === 'ConflictException'

/** There is no such session or interpreter (any more). */
export const isGone = (error: unknown): boolean => nameOf(error) === 'ResourceNotFoundException'

/** The error of `open`, whose program has surely not begun. */
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

/** The error of a call in a sandbox that was open: whatever it ran is lost. */
export function lostSandbox(error: unknown): CofferdamError {
  if (isCofferdamError(error)) return error
  return new CofferdamError('sandbox_lost', `AgentCore: ${said(error)}`, {
    cause: error,
    details: { ...refusalOf(error), reason: lossReason(error) },
  })
}

/** The error of a program that surely did not begin, in a sandbox that was open; the executor knows the reason. */
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

/** What the service said more. */
const refusalOf = (error: unknown): Refused['refusal'] => (error as Refused | null)?.refusal

/** AWS's words name actions and resources; key ids are cut out all the same. */
function said(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  return text.replaceAll(/\b(?:AKIA|ASIA)[A-Z0-9]{12,}/g, '<redacted>').slice(0, SAID_MAX)
}
