/** How a command ended, as the interfaces of the SDKs tell it: an exit code, two texts, and what was cut. */
import { CofferdamError, type ExecutionResult } from '@cofferdam/client'

export interface CommandResult {
  /** If a signal ended the command: 128 plus its number. At the deadline: 124, as `timeout` returns. */
  exitCode: number
  stdout: string
  /** If the command did not end by itself, its last line says why. */
  stderr: string
  ending: ExecutionResult['ending']
  isTimedOut: boolean
  /** A signal ended it: at a deadline, at a limit, or because it was cancelled. */
  isKilled: boolean
  /** Bytes that the text lacks. 0 unless the command printed more than the fleet keeps, 16 MiB. */
  stdoutDropped: number
  stderrDropped: number
  durationMs: number
  executionId: string
  backend: string | null
  /** Whether it was the first command of its session. */
  isFresh: boolean
}

const SIGNALS: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGBUS: 7,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGUSR1: 10,
  SIGSEGV: 11,
  SIGUSR2: 12,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15,
}
const TIMED_OUT = 124
/** The most bytes of a stream that the fleet keeps (BOUNDS.fullOutputBytes). */
const KEPT_BYTES = 16 * 1024 * 1024

/** Endings that say nothing about the command, because the platform refused or lost it. */
const REFUSED: readonly ExecutionResult['ending'][] = [
  'policy_denied',
  'cap_exceeded',
  'provisioning',
  'sandbox_lost',
  'worker_lost',
]

/** The error for an ending in REFUSED. Null for every other ending. */
export function refusalOf(result: ExecutionResult): CofferdamError | null {
  const { ending, reason, execution_id, resets_at } = result
  if (!REFUSED.includes(ending)) return null
  const details = { execution_id, ending, reason, ...(resets_at === undefined ? {} : { resets_at }) }
  if (reason === 'session_not_found')
    return new CofferdamError(
      'session_not_found',
      'The sandbox has ended, and its files are gone: it was idle for too long, too old, or its worker ' +
        'stopped. The next call begins a new, empty one, unless it must exist.',
      { details },
    )
  const isLost = ending === 'sandbox_lost' || ending === 'worker_lost'
  const code = isLost ? 'sandbox_lost' : ending === 'provisioning' ? 'backend_unavailable' : 'conflict'
  return new CofferdamError(code, result.error_message, { details })
}

/** `full` has the whole text of both streams, of which `result` may have only a part. */
export function commandResult(
  result: ExecutionResult,
  full: { stdout: string; stderr: string },
): CommandResult {
  const { ending, signal, stdout_bytes, stderr_bytes, error_message, env_dropped } = result
  const isTimedOut = ending === 'soft_timeout' || ending === 'hard_timeout'
  const endedByItself = ending === 'ok' || ending === 'error'
  const notes = [
    ...(env_dropped === undefined
      ? []
      : [`Not set, because they change how programs start: ${env_dropped.join(', ')}.`]),
    ...(endedByItself || error_message === undefined ? [] : [error_message]),
  ]
  return {
    exitCode: exitCodeOf(result, isTimedOut),
    stdout: full.stdout,
    stderr: withNotes(full.stderr, notes),
    ending,
    isTimedOut,
    isKilled: signal !== null || (!endedByItself && ending !== 'crashed'),
    stdoutDropped: Math.max(0, stdout_bytes - KEPT_BYTES),
    stderrDropped: Math.max(0, stderr_bytes - KEPT_BYTES),
    durationMs: result.usage?.wall_ms ?? result.duration_ms,
    executionId: result.execution_id,
    backend: result.backend,
    isFresh: result.session?.fresh ?? true,
  }
}

function exitCodeOf({ ending, exit_code, signal }: ExecutionResult, isTimedOut: boolean): number {
  if (isTimedOut) return TIMED_OUT
  if (ending === 'ok') return 0
  // Exit code 0 is ignored here: a shell may return it although its child was killed at a limit.
  if (exit_code !== null && exit_code !== 0) return exit_code
  return signal === null ? 1 : 128 + (SIGNALS[signal] ?? 0)
}

function withNotes(stderr: string, notes: readonly string[]): string {
  if (notes.length === 0) return stderr
  const separator = stderr === '' || stderr.endsWith('\n') ? '' : '\n'
  return `${stderr}${separator}${notes.map((note) => `cofferdam: ${note}\n`).join('')}`
}
