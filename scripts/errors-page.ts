/** Generates docs/errors.md from the tables of endings and errors. */
import { ENDINGS, ERRORS, errorClassOf, exitStatusOf, type Ending, type ErrorCode } from '@cofferdam/contract'
import { EXIT, exitStatusFor } from '../apps/cli/src/exit-status.ts'
import { code, MADE, table } from './page-table.ts'

const RETRY_WORDS = {
  never: '`never`: the same call fails again',
  later: '`later`: the same call may work',
  elsewhere: '`elsewhere`: it may work on another backend or process',
} as const

/** What happened if an attempt ended this way. */
const ENDING_WORDS: Record<Ending, string> = {
  ok: 'The program exited with status 0.',
  error: 'The program exited with another status, or raised.',
  crashed: 'A signal that Cofferdam did not send killed the program.',
  soft_timeout:
    'The program stopped when it was asked to at the soft deadline, or it missed its heartbeat. Its output ' +
    'up to then is kept.',
  hard_timeout:
    'The program still ran at the hard deadline, or used up `limits.cpu_time_ms`. Its whole process tree ' +
    'was killed.',
  oom: 'The kernel killed the program because of its memory limit, or it failed with Python’s `MemoryError`.',
  pids_limit: 'It failed after a fork was refused because of the process limit.',
  disk_limit: 'It failed after a write was refused because of the disk limit.',
  output_limit:
    'The program printed more than its limit, and `limits.on_output_limit` of the request is `kill`.',
  cancelled: 'Somebody cancelled it.',
  policy_denied: 'The tenant’s policy does not allow it. No code ran.',
  cap_exceeded: 'A cap of the tenant or agent is used up. No code ran.',
  provisioning:
    'The platform could not start the program, mostly because no sandbox was available. No code ran.',
  sandbox_lost: 'The sandbox died while the program ran.',
  worker_lost: 'The worker died or shut down after the program had begun.',
}

/**
 * The CLI's exit status for an ending, in words. It tries status 3 to find out whether the CLI exits with the
 * program's own status.
 */
function cliStatus(ending: Ending): string {
  const status = exitStatusFor({ ending, exit_code: 1, signal: null })
  const own = exitStatusFor({ ending, exit_code: 3, signal: null }) === 3
  return own ? 'the program’s' : String(status)
}

function errorRow(name: ErrorCode): string[] {
  const { http, retry, charged, message, hint } = ERRORS[name]
  return [code(name), String(http), RETRY_WORDS[retry], charged ? 'yes' : 'no', message, hint]
}

export function errorsPage(): string {
  const codes = Object.keys(ERRORS) as ErrorCode[]
  return [
    MADE('libs/contract/src/error-table.ts', 'scripts/errors-page.ts'),
    '# Errors and endings',
    '',
    'This page explains every ending of an execution and every error code.',
    '',
    'Two kinds of failure are kept apart. If a **program** fails, that is data: the result says how its',
    'execution ended. If the **platform** cannot accept or answer a request, the answer is an error with a',
    'code. If it fails later, the execution ends `provisioning`, `sandbox_lost` or `worker_lost`.',
    '',
    '## Endings',
    '',
    '`ending` says exactly how an attempt ended. `exit_status` is its coarse class. `error` is the class',
    'that an agent sees.',
    '',
    ...table(
      ['ending', 'exit_status', 'error', 'when', 'exit status of the CLI'],
      ENDINGS.map((ending) => [
        code(ending),
        code(exitStatusOf(ending)),
        errorClassOf(ending) === null ? '' : code(String(errorClassOf(ending))),
        ENDING_WORDS[ending],
        cliStatus(ending),
      ]),
    ),
    'If a signal killed the program, the CLI exits with 128 plus the number of the signal.',
    `It exits with ${EXIT.platform} if the platform fails, and with ${EXIT.usage} if the command line or the`,
    'configuration is wrong.',
    '',
    '## Platform errors',
    '',
    'An error answer is `{"error": {"code", "message", "hint", "retry", "details"?, "trace_id"?}}`. Tell',
    'errors apart by `code`. *Charged* says whether the execution stays counted against the caps.',
    '',
    ...table(['code', 'HTTP', 'retry', 'charged', 'message', 'what to do'], codes.map(errorRow)),
  ].join('\n')
}
