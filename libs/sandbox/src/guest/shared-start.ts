/** Starts the agent and a waiting Python in one process (agent/python-gate/cofferdam_start.py). */
import type { AgentOptions } from './agent-argv.ts'
import { optionsAsGiven } from './agent-argv.ts'

/** The command that starts both processes, and the options that the worker sends when they may go on. */
export interface SharedStart {
  /**
   * Run it in the work directory, which must exist. The caller sets the limit of open files (SURROUNDINGS),
   * because the process would need one more import at each start to set it itself.
   */
  argv: [string, string]
  /** The whole environment of the started process. */
  env: Record<string, string>
  /**
   * Pass them to `release`, which sends them on the channel. In the command line or environment, the program
   * could read them.
   */
  options: string[]
}

/**
 * The agent's defaults (options.py), in the same order. Variables that differ from these are set after the
 * start.
 */
const BASE_ENV = {
  PATH: '/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin',
  HOME: '/tmp',
  LANG: 'C.UTF-8',
  TMPDIR: '/tmp',
  TZ: 'UTC',
}

/**
 * The start of a single-use Python sandbox. Both processes then wait for `release(options)`. The caller must
 * already have made the agent PID 1, with the program's uid, no_new_privs, no core dumps and the program's
 * seccomp filter. Null for other sandboxes: start those with `agentArgv`.
 */
export function sharedStart(options: AgentOptions): SharedStart | null {
  if (options.language !== 'python' || options.cell === true) return null
  // Python would apply such variables to the agent too.
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
