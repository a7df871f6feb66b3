/** What an agent reads about an execution that did not run to its own end. */
import { assertNever, type CapDimension, type ExecutionResult } from '@cofferdam/contract'
import type { ToolName } from './tool.ts'

/**
 * Whether the ending was only inferred from the last line of output. For an agent, that line is ordinary
 * output.
 */
export const isGuess = ({ reason }: ExecutionResult): boolean =>
  reason === 'memory_error' || reason === 'fork_refused'

/** One or two sentences for any ending but `ok`, beginning with the tool. Redacted, as the result is. */
export const describeEnding = (tool: ToolName, result: ExecutionResult): string =>
  `${tool}: ${sentenceOf(result)}`

function sentenceOf(result: ExecutionResult): string {
  const because = result.error_message === undefined ? '' : ` ${result.error_message}`
  switch (result.ending) {
    case 'ok':
    case 'error':
    case 'crashed':
      return `the tool failed in the sandbox.${because}`
    case 'soft_timeout':
    case 'hard_timeout':
      return timeoutOf(result)
    case 'oom':
      return 'the sandbox ran out of memory, so the program was killed. Use less memory at a time.'
    case 'pids_limit':
      return 'the sandbox has reached its limit of processes. End processes that are not needed.'
    case 'disk_limit':
      return 'the disk of the sandbox is full. Delete files that are not needed.'
    case 'output_limit':
      return 'the program was stopped because it wrote too much output. Send its output to a file.'
    case 'cancelled':
      return 'the call was cancelled. It may have had effects.'
    case 'policy_denied':
      return `this is not permitted here, so nothing was run.${because}`
    case 'cap_exceeded':
      return capOf(result)
    case 'provisioning':
      return `no sandbox could be provided, so nothing was run.${because} Try again in a minute.`
    case 'sandbox_lost':
      return 'the sandbox was lost during the call. The call may have had effects. Check before you repeat it.'
    case 'worker_lost':
      return (
        'the machine that ran the sandbox stopped during the call. The call may have had effects. ' +
        'Check before you repeat it.'
      )
    default:
      return assertNever(result.ending)
  }
}

function timeoutOf({ reason, duration_ms }: ExecutionResult): string {
  if (reason === 'cpu_time_limit') return 'the program was killed because it used too much CPU time.'
  if (reason === 'session_timeout') return 'the time of the sandbox was over, so it was ended with the call.'
  if (reason === 'heartbeat_timeout') return 'the program reported no progress, so it was stopped.'
  return `the call timed out after ${Math.round(duration_ms)}ms.`
}

const CAPS: Record<CapDimension, string> = {
  tenant_daily: "the day's number of executions is used up",
  agent_hourly: "the hour's number of executions for this agent is used up",
  tenant_daily_cpu: "the day's CPU time is used up",
  tenant_daily_cost: "the day's budget is used up",
  tenant_rate: 'too many executions have started in a short time',
  unknown: 'a quota could not be checked',
}

function capOf({ dimension = 'unknown', resets_at, kill_switch, error_message }: ExecutionResult): string {
  if (kill_switch === true) {
    const said = error_message === undefined ? '' : ` ${error_message}`
    return `executions are switched off at the moment, so nothing was run.${said}`
  }
  const when = resets_at === undefined ? 'Try again later.' : `Try again after ${resets_at}.`
  return `${CAPS[dimension]}, so nothing was run. ${when}`
}
