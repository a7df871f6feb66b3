/** How the ending of an execution, and an error of the API, become a result. */
import { isCofferdamError, type CofferdamError, type ExecutionResult } from '@cofferdam/client'
import { emptyResult, type CodeImage, type CodeResult, type CodeStatus, type Problem } from './code-result.ts'

/** Endings that are no result of the program. Every other ending has the status `ended`. */
const STATUS: Partial<Record<ExecutionResult['ending'], CodeStatus>> = {
  cancelled: 'cancelled',
  cap_exceeded: 'refused',
  policy_denied: 'refused',
  provisioning: 'failed',
  sandbox_lost: 'failed',
  worker_lost: 'failed',
}

/** What was fetched in addition to the result itself. */
export interface Fetched {
  images: readonly CodeImage[]
  stdoutTail: string
}

/** An execution that ended. */
export function endedResult(result: ExecutionResult, { images, stdoutTail }: Fetched): CodeResult {
  const { ok, execution_id, ending, exit_code, stdout, stderr, duration_ms } = result
  const status = isSetting(result) ? 'refused' : (STATUS[ending] ?? 'ended')
  return {
    status,
    ok,
    execution_id,
    ending,
    exit_code,
    stdout,
    ...(stdoutTail === '' ? {} : { stdout_tail: stdoutTail }),
    stderr,
    stdout_bytes: result.stdout_bytes,
    stderr_bytes: result.stderr_bytes,
    stdout_truncated: result.stdout_truncated,
    stderr_truncated: result.stderr_truncated,
    ...(result.value === undefined ? {} : { value: result.value }),
    duration_ms,
    ...(result.error === undefined ? {} : { error: result.error }),
    ...(result.error_message === undefined ? {} : { error_message: result.error_message }),
    artifacts: result.artifacts.map(({ path, size }) => ({ path, size })),
    images: [...images],
    ...(result.session === undefined
      ? {}
      : { session: { fresh: result.session.fresh, interpreter: result.session.interpreter } }),
    ...(status === 'refused' || status === 'failed' ? { problem: problemOf(result) } : {}),
  }
}

/** Reasons of the ending `provisioning` that stay until an operator changes a tenant or a template. */
const SETTINGS: ReadonlySet<string> = new Set(['tenant_unknown', 'tenant_sandbox_disabled', 'not_requested'])

const isSetting = ({ ending, reason = '' }: ExecutionResult): boolean =>
  ending === 'provisioning' && SETTINGS.has(reason)

function problemOf(result: ExecutionResult): Problem {
  const { ending, reason, error_message, resets_at, kill_switch } = result
  const isFinal = ending === 'policy_denied' || kill_switch === true || isSetting(result)
  const moment = ending === 'cap_exceeded' && !isFinal && resets_at !== undefined
  return {
    code: ending === 'cap_exceeded' ? ending : (reason ?? ending),
    message: error_message ?? `The execution ended ${ending}.`,
    retry: isFinal ? 'never' : 'later',
    ...(moment ? { retry_at: resets_at } : {}),
  }
}

/** Errors whose message is for operators. Their details stay out of what a model reads. */
const PRIVATE: ReadonlySet<string> = new Set(['internal', 'config_invalid'])
/** Errors for calls that were not accepted. The caller can succeed with a different or later call. */
const REFUSED: ReadonlySet<string> = new Set(['queue_full', 'rate_limited', 'invalid_request'])

/**
 * The result for a call that failed. The message of an error that is no CofferdamError stays out of the
 * result.
 */
export function failedResult(error: unknown, executionId?: string): CodeResult {
  const named = executionId === undefined ? {} : { execution_id: executionId }
  if (!isCofferdamError(error))
    return emptyResult('failed', {
      ...named,
      problem: { code: 'internal', message: 'Something failed on our side.', retry: 'later' },
    })
  const { code, message, retry } = error
  const http = Number(error.details['status'] ?? error.entry.http)
  const isRefusal = REFUSED.has(code) || (http >= 400 && http < 500 && retry === 'never')
  return emptyResult(isRefusal ? 'refused' : 'failed', {
    ...named,
    problem: {
      code,
      message: PRIVATE.has(code) ? error.entry.message : message,
      retry,
      ...retryAt(error),
    },
  })
}

/** From `Retry-After`, which the client keeps as seconds. */
function retryAt({ details }: CofferdamError): { retry_at?: string } {
  const seconds = Number(details['retry_after_s'] ?? Number.NaN)
  if (!(seconds > 0 && seconds < 366 * 86_400)) return {}
  return { retry_at: new Date(Date.now() + seconds * 1000).toISOString() }
}
