/** Starts the agent and a waiting Python in one process (agent/python-gate/cofferdam_start.py). */
import type { AgentOptions } from './agent-argv.ts'
import { optionsAsGiven } from './agent-argv.ts'

/** What starts it, and what it is told when it may go on. */
export interface SharedStart {
  /**
   * Run it in the work directory, which must exist, with the limit of open files of every sandbox
   * (SURROUNDINGS). To set that limit inside would cost each start an import.
   */
  argv: [string, string]
  /** Its whole environment. */
  env: Record<string, string>
  /** For `release`. Sent on the channel, since a program can read its own command line and environment. */
  options: string[]
}

/** The agent's defaults (options.py), in the same order. Differing variables are set later. */
const BASE_ENV = {
  PATH: '/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin',
  HOME: '/tmp',
  LANG: 'C.UTF-8',
  TMPDIR: '/tmp',
  TZ: 'UTC',
}

/**
 * The start of a single-use Python sandbox whose agent is PID 1 and has the program's uid, no new privileges,
 * no core dumps and the program's seccomp filter. It waits for `release(options)`. Null for all others, which
 * `agentArgv` starts.
 */
export function sharedStart(options: AgentOptions): SharedStart | null {
  if (options.language !== 'python' || options.cell === true) return null
  // Python would apply them to the agent too.
  if (Object.keys(options.env ?? {}).some((name) => name.startsWith('PYTHON'))) return null
  const preload = options.preload ?? []
  return {
    argv: [options.python, 'main.py'],
    env: {
      ...BASE_ENV,
      ...options.env,
      PYTHONPATH: `${options.guestDir}/python-gate`,
      ...(preload.length === 0
        ? {}
        : { OPENBLAS_NUM_THREADS: '1', OMP_NUM_THREADS: '1', COFFERDAM_PRELOAD: preload.join(',') }),
    },
    options: optionsAsGiven({ ...options, hold: false }),
  }
}
