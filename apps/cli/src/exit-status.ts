/** Converts the ending of an execution to the exit status of `run` and `logs --follow`. */
import { constants } from 'node:os'
import { assertNever, type Ending, type ExecutionResult } from '@cofferdam/contract'

export const EXIT = {
  ok: 0,
  /** The platform failed or refused. */
  platform: 1,
  usage: 2,
  /** The folder and the workspace both changed a file. Both versions are kept, and the user decides. */
  conflict: 3,
  /** Like timeout(1). */
  timeout: 124,
  /** 128 + SIGINT. */
  cancelled: 130,
  /** 128 + SIGKILL, as shells and container engines report the kernel's out-of-memory kill. */
  outOfMemory: 137,
} as const

/** The program's own status if it has one, else the status for its ending. */
export function exitStatusFor(result: {
  ending: Ending
  exit_code: number | null
  signal: ExecutionResult['signal']
}): number {
  switch (result.ending) {
    case 'ok':
      return EXIT.ok
    case 'soft_timeout':
    case 'hard_timeout':
      return EXIT.timeout
    case 'oom':
      return EXIT.outOfMemory
    case 'cancelled':
      return EXIT.cancelled
    case 'error':
    case 'crashed':
    case 'pids_limit':
    case 'disk_limit':
    case 'output_limit':
      return ownStatus(result)
    case 'policy_denied':
    case 'cap_exceeded':
    case 'provisioning':
    case 'sandbox_lost':
    case 'worker_lost':
      return EXIT.platform
    default:
      return assertNever(result.ending)
  }
}

/** Never 0, because the ending says that the program failed. */
function ownStatus(result: { exit_code: number | null; signal: string | null }): number {
  if (result.signal !== null) {
    const number = Object.entries(constants.signals).find(([name]) => name === result.signal)?.[1]
    return number === undefined ? EXIT.platform : 128 + number
  }
  return result.exit_code === null || result.exit_code === 0 ? EXIT.platform : result.exit_code
}
