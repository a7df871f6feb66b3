/**
 * Derives the ending from the evidence: a table whose first match wins. What we did comes first, then the
 * kernel's memory kill, then the soft stop, then what the program did. Signal 9 alone proves nothing, because
 * a program may kill itself.
 */
import type { Ending, Exit, StopCause } from '@cofferdam/contract'

export interface Evidence {
  /** Why we stopped the program. Null when we did not, or only softly. */
  stop: StopCause | null
  softStopped: boolean
  silent?: boolean
  /** Null when the program was halted or its sandbox was lost. */
  exit: Exit | null
  /** The sandbox ended without an exit. */
  lost: { reason: string; oomKills: number } | null
  /** The program wrote more than its limit, and the request says `kill`. */
  outputLimitPassed: boolean
  /** How many processes the program may have. Without it, processes that are left over are not judged. */
  pidsLimit?: number
  /** What stderr says went wrong, or empty. */
  errorLine: string
}

export interface Verdict {
  ending: Ending
  /** A stable word that says more than the ending. Null if the ending says everything. */
  reason: string | null
}

interface Row {
  when: (evidence: Evidence) => boolean
  ending: Ending
  reason?: string | ((evidence: Evidence) => string | null)
}

/** A sandbox was lost because its vendor's time limit was over, which counts as the program's fault. */
export const SESSION_TIMEOUT = 'session_timeout'
/** A sandbox was lost because its vendor refused the program, which did not run. */
export const NOT_BEGUN = 'not_begun'

const failed = ({ exit }: Evidence) => exit !== null && (exit.exitCode !== 0 || exit.signal !== null)
const killed = ({ exit }: Evidence) => exit !== null && (exit.signal === 'SIGKILL' || exit.exitCode === 137)

const TABLE: readonly Row[] = [
  { when: (e) => e.stop === 'hard_deadline', ending: 'hard_timeout' },
  { when: (e) => e.stop === 'cpu_time', ending: 'hard_timeout', reason: 'cpu_time_limit' },
  { when: (e) => e.stop === 'output_limit' || e.outputLimitPassed, ending: 'output_limit' },
  { when: (e) => e.stop === 'cancelled', ending: 'cancelled' },
  { when: (e) => e.stop === 'drain', ending: 'worker_lost', reason: 'drained' },
  { when: (e) => killed(e) && (e.exit?.oomKills ?? 0) > 0, ending: 'oom' },
  { when: (e) => (e.lost?.oomKills ?? 0) > 0, ending: 'oom' },
  { when: (e) => e.lost?.reason === SESSION_TIMEOUT, ending: 'hard_timeout', reason: SESSION_TIMEOUT },
  { when: (e) => e.lost?.reason === NOT_BEGUN, ending: 'provisioning', reason: NOT_BEGUN },
  {
    when: (e) => e.stop === 'heartbeat' || (e.silent === true && e.exit !== null),
    ending: 'soft_timeout',
    reason: 'heartbeat_timeout',
  },
  { when: (e) => e.softStopped && e.exit !== null, ending: 'soft_timeout' },
  {
    when: (e) => failed(e) && /^[\w.]*MemoryError\b/.test(e.errorLine),
    ending: 'oom',
    reason: 'memory_error',
  },
  { when: (e) => e.exit?.pidsLimitHit === true && (failed(e) || isStorm(e)), ending: 'pids_limit' },
  {
    when: (e) => failed(e) && FORK_REFUSED.test(e.errorLine),
    ending: 'pids_limit',
    reason: 'fork_refused',
  },
  { when: (e) => failed(e) && e.exit?.diskLimitHit === true, ending: 'disk_limit' },
  { when: (e) => e.exit !== null && e.exit.signal !== null, ending: 'crashed' },
  { when: (e) => e.exit !== null && e.exit.exitCode === null, ending: 'crashed', reason: 'exit_unknown' },
  { when: (e) => e.exit !== null && e.exit.exitCode !== 0, ending: 'error', reason: oomInChild },
  { when: (e) => e.exit !== null, ending: 'ok', reason: sideNote },
  { when: () => true, ending: 'sandbox_lost', reason: (e) => e.lost?.reason ?? null },
]

/**
 * Printed by interpreters that could not start a process or thread. Used if the kernel reports no refused
 * fork.
 */
const FORK_REFUSED =
  /can't start new thread|^BlockingIOError: \[Errno 11\]|\b(?:fork|spawn|clone|pthread_create)\b.*(?:Resource temporarily unavailable|EAGAIN)/

/**
 * True if at least half of the allowed processes still ran when the program ended. If the kernel refused a
 * fork too, the ending is `pids_limit` even if the shell that started them exited with 0.
 */
const isStorm = ({ exit, pidsLimit }: Evidence): boolean =>
  pidsLimit !== undefined && (exit?.processesLeft ?? 0) >= pidsLimit / 2

/**
 * The reason for a program that succeeded although the kernel killed one of its processes or refused it a new
 * one.
 */
function sideNote(evidence: Evidence): string | null {
  return oomInChild(evidence) ?? (evidence.exit?.pidsLimitHit === true ? 'pids_limit_hit' : null)
}

function oomInChild({ exit }: Evidence): string | null {
  return (exit?.oomKills ?? 0) > 0 ? 'oom_in_child' : null
}

export function decideEnding(evidence: Evidence): Verdict {
  for (const { when, ending, reason } of TABLE)
    if (when(evidence))
      return { ending, reason: typeof reason === 'function' ? reason(evidence) : (reason ?? null) }
  return { ending: 'sandbox_lost', reason: null }
}
