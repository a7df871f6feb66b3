/** The command that starts the agent inside a sandbox. */
import { SURROUNDINGS, type Language, type Program } from '@cofferdam/contract'

export interface AgentOptions {
  /** Python 3.8 or newer inside the sandbox; runs the agent and Python programs. */
  python: string
  /** Node inside the sandbox (24 or newer for TypeScript); default `node`. */
  node?: string
  /** Where the guest files are inside the sandbox. */
  guestDir: string
  /** Language whose interpreter waits; `none` for commands. */
  language: Language | 'none'
  /** Work directory of the program, created if missing. Default /tmp/work. */
  work?: string
  /** Read /sys/fs/cgroup, which must be the sandbox's own cgroup. */
  cgroup?: boolean
  /** The work directory has its own file system, so a full one means that the disk limit was hit. */
  ownDisk?: boolean
  /** Wait for `release()` before any process starts. */
  hold?: boolean
  /** Several runs with `clean()` between executions. An interpreter waits again after each run. */
  cell?: boolean
  /** Modules that the waiting Python imports before it is ready. */
  preload?: readonly string[]
  /** kill(-1) cannot reach beyond the sandbox, although the agent is not PID 1. */
  confined?: boolean
  /** Gives the program a Landlock domain of its own, so that it cannot signal the agent. */
  scope?: boolean
  /** File with a seccomp filter (BPF) for the program's processes. */
  seccomp?: string
  /**
   * Unix socket inside the sandbox for the agent's frames. stdin is then only a life line: its end, or a byte
   * on it, ends the agent. Default: frames on stdin and stdout.
   */
  socket?: string
  uid?: number
  gid?: number
  /** Environment beneath the program's own. PATH, HOME and LANG have defaults. */
  env?: Record<string, string>
  /**
   * Resource limits of the program's processes, by lower-case names without RLIMIT_ (fsize, nofile, nproc,
   * …). Default: every sandbox's nofile.
   */
  rlimits?: Record<string, number>
}

/** Names that Python can import and that no shell or option parser misreads. */
const MODULE_NAME = /^[A-Za-z_][A-Za-z0-9_.]*$/

/** Command and arguments of the agent. Throws RangeError for a preload that is not a module name. */
export function agentArgv(options: AgentOptions): string[] {
  return [options.python, '-I', '-S', `${options.guestDir}/agent.py`, ...agentOptions(options)]
}

/**
 * The arguments of `agentArgv` without its command, for an agent that is started by another one. Throws the
 * errors of `agentArgv`.
 */
export function agentOptions(options: Partial<AgentOptions>): string[] {
  return optionsAsGiven({
    ...options,
    rlimits: { nofile: SURROUNDINGS.openFiles, ...options.rlimits },
  })
}

/** `agentOptions` without the default limit of open files, for an agent that was started with that limit. */
export function optionsAsGiven(options: Partial<AgentOptions>): string[] {
  const flag = (name: string, on: boolean | undefined): string[] => (on === true ? [`--${name}`] : [])
  const value = (name: string, text: string | number | undefined): string[] =>
    text === undefined ? [] : [`--${name}`, String(text)]
  for (const name of options.preload ?? [])
    if (!MODULE_NAME.test(name)) throw new RangeError(`not the name of a Python module: ${name}`)
  return [
    ...value('language', options.language),
    ...value('python', options.python),
    ...value('node', options.node),
    ...value('work', options.work),
    ...value('seccomp', options.seccomp),
    ...value('socket', options.socket),
    ...value('uid', options.uid),
    ...value('gid', options.gid),
    ...flag('cgroup', options.cgroup),
    ...flag('own-disk', options.ownDisk),
    ...flag('hold', options.hold),
    ...flag('cell', options.cell),
    ...flag('confined', options.confined),
    ...flag('scope', options.scope),
    ...(options.preload ?? []).flatMap((name) => ['--preload', name]),
    ...Object.entries(options.env ?? {}).flatMap(([name, text]) => ['--env', `${name}=${text}`]),
    ...Object.entries(options.rlimits ?? {}).flatMap(([name, limit]) => ['--rlimit', `${name}=${limit}`]),
  ]
}

/** The language whose interpreter should wait for a program. */
export const languageOf = (program: Program): Language | 'none' =>
  program.type === 'script' ? program.language : 'none'
