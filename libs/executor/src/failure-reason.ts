/**
 * The public text about a failed attempt, for the agent that sent it: what happened, which limit or value
 * matters, and what to change.
 */
import { BOUNDS, assertNever, type Exit, type Limits } from '@cofferdam/contract'
import { NOT_BEGUN, SESSION_TIMEOUT, type Verdict } from './verdict.ts'

export interface FailureFacts {
  limits: Limits
  exit: Exit | null
  /** What the program's stderr says went wrong, and where. Redacted. */
  errorLine: string
  /** What the backend said when the program was refused, redacted. */
  refusal?: string
}

/** One or two sentences of at most 2,000 characters. Null for `ok`. */
export function failureReason({ ending, reason }: Verdict, facts: FailureFacts): string | null {
  const text = sentence(ending, reason, facts)
  return text === null ? null : text.slice(0, BOUNDS.failureReasonLength)
}

function sentence(ending: Verdict['ending'], reason: string | null, facts: FailureFacts): string | null {
  const { limits, exit, errorLine } = facts
  const said = errorLine === '' ? '.' : `: ${errorLine}`
  switch (ending) {
    case 'ok':
      return null
    case 'error':
      return `The program exited with code ${exit?.exitCode ?? 'unknown'}${said}`
    case 'crashed':
      return `The program was killed by ${exit?.signal ?? 'an unknown signal'}${said}`
    case 'soft_timeout':
      if (reason === 'heartbeat_timeout')
        return (
          `The program reported no progress for ${limits.heartbeat_timeout_ms ?? 0} ms and was stopped; ` +
          'its output up to then is kept. Call cofferdam.progress more often, or raise ' +
          'limits.heartbeat_timeout_ms.'
        )
      return (
        `The program was stopped at its soft deadline of ${limits.soft_timeout_ms} ms; ` +
        'its output up to then is kept. Do less, or raise limits.soft_timeout_ms.'
      )
    case 'hard_timeout':
      if (reason === 'cpu_time_limit')
        return `The program was killed after using more than ${limits.cpu_time_ms ?? 0} ms of CPU time.`
      if (reason === SESSION_TIMEOUT)
        return 'The vendor ended the sandbox at the end of its time, and the program with it.'
      return (
        `The program was killed at its hard deadline of ${limits.hard_timeout_ms} ms; ` +
        `it did not end when asked to at ${limits.soft_timeout_ms} ms.`
      )
    case 'oom':
      return (
        `The program ran out of memory; its limit is ${limits.memory_mib} MiB. ` +
        'Use less, or raise limits.memory_mib.'
      )
    case 'pids_limit':
      return (
        `The program could not start another process or thread; its limit is ${limits.pids}. ` +
        `The last error line was${said}`
      )
    case 'disk_limit':
      return (
        `The program filled its disk; its limit is ${limits.disk_mib} MiB. ` +
        `The last error line was${said}`
      )
    case 'output_limit':
      return (
        `The program wrote more than its limit of ${limits.stdout_bytes} bytes (stdout) ` +
        `or ${limits.stderr_bytes} bytes (stderr) and was killed, as limits.on_output_limit asks.`
      )
    case 'cancelled':
      return 'The execution was cancelled.'
    case 'worker_lost':
      return (
        'The worker was stopped while the program ran; it was not run again, because it ' +
        'may have had effects.'
      )
    case 'sandbox_lost':
      return reason === 'protocol_violation'
        ? 'The sandbox broke its protocol while the program ran and was destroyed.'
        : 'The sandbox died while the program ran.'
    case 'provisioning':
      if (reason === NOT_BEGUN)
        return `The program did not run, because its backend refused it. ${facts.refusal ?? ''}`
      return null
    case 'policy_denied':
    case 'cap_exceeded':
      // These are decided before the program runs, with their own messages.
      return null
    default:
      return assertNever(ending)
  }
}
