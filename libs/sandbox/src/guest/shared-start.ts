/** How the agent and a waiting Python come from one start of the interpreter (agent/python-gate/cofferdam_start.py). */
import type { AgentOptions } from './agent-argv.ts'
import { optionsAsGiven } from './agent-argv.ts'

/** What starts it, and what it is told when it may go on. */
export interface SharedStart {
  /**
   * To be run in the work directory, which must be there, with the open files that every sandbox has
   * (SURROUNDINGS): to set them inside would cost each start an import.
   */
  argv: [string, string]
  /** All of its environment. */
  env: Record<string, string>
  /** For `release`: they come by the channel, since a program can read its own command line and environment. */
  options: string[]
}

/** The agent's own defaults (options.py), in their order: what differs from the program's is set again at bind. */
const BASE_ENV = {
  PATH: '/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin',
  HOME: '/tmp',
  LANG: 'C.UTF-8',
  TMPDIR: '/tmp',
  TZ: 'UTC',
}

/**
 * The start of a single-use Python sandbox whose agent is PID 1 with no uid but the program's, no new privileges, no core dumps and the
 * program's filter; null for all others, which `agentArgv` starts. It waits for `release(options)`.
 */
export function sharedStart(options: AgentOptions): SharedStart | null {
  if (options.language !== 'python' || options.cell === true) return null
  // What Python reads of them would hold for the agent, too.
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
