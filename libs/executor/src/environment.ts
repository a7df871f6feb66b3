/**
 * The environment of a program: ours as a base, the request's on top, without the names that make a loader, an
 * interpreter or a tool run other code than the program. The sandbox is the wall; this keeps a request from
 * changing how the runner inside it starts.
 */

/** Without PATH: where interpreters stand is the backend's own knowledge. */
const BASE: Readonly<Record<string, string>> = {
  HOME: '/tmp',
  LANG: 'C.UTF-8',
  TMPDIR: '/tmp',
}

const REFUSED_PREFIXES = [
  // Dynamic loaders and libc: LD_PRELOAD, DYLD_INSERT_LIBRARIES, GLIBC_TUNABLES, MALLOC_CHECK_.
  'LD_',
  'DYLD_',
  'GLIBC_',
  'MALLOC_',
  // PYTHONPATH, PYTHONSTARTUP, PYTHONHOME, PYTHONINSPECT, …
  'PYTHON',
  // Functions that bash imports (Shellshock's door), and our own names.
  'BASH_FUNC_',
  'COFFERDAM_',
  // GIT_CONFIG_COUNT and its keys can name commands.
  'GIT_CONFIG',
]

const REFUSED = new Set([
  'NODE_OPTIONS',
  'NODE_PATH',
  'NODE_REPL_EXTERNAL_MODULE',
  'BASH_ENV',
  'ENV',
  'IFS',
  'PS4',
  'SHELLOPTS',
  'BASHOPTS',
  'PROMPT_COMMAND',
  'PERL5OPT',
  'PERL5LIB',
  'PERL5DB',
  'PERLLIB',
  'RUBYOPT',
  'RUBYLIB',
  'JAVA_TOOL_OPTIONS',
  '_JAVA_OPTIONS',
  'JDK_JAVA_OPTIONS',
  'GCONV_PATH',
  'LOCPATH',
  'NLSPATH',
  'HOSTALIASES',
  'LOCALDOMAIN',
  'RES_OPTIONS',
  'GIT_ASKPASS',
  'GIT_EDITOR',
  'GIT_EXEC_PATH',
  'GIT_EXTERNAL_DIFF',
  'GIT_PAGER',
  'GIT_PROXY_COMMAND',
  'GIT_SEQUENCE_EDITOR',
  'GIT_SSH',
  'GIT_SSH_COMMAND',
  'GIT_TEMPLATE_DIR',
  'SSH_ASKPASS',
  // Ours to say: the program's own spans hang below `program.run`.
  'TRACEPARENT',
  'TRACESTATE',
])

export interface ProgramEnvironment {
  env: Record<string, string>
  /** Names of the request that were left out, in its order. */
  dropped: string[]
}

/** Composes the environment; `traceparent` is left out when null. */
export function programEnvironment(
  requested: Readonly<Record<string, string>>,
  traceparent: string | null,
): ProgramEnvironment {
  const dropped = Object.keys(requested).filter(isRefused)
  const kept = Object.entries(requested).filter(([name]) => !isRefused(name))
  // fromEntries defines own properties, so a variable called __proto__ is only a variable.
  const env = Object.fromEntries([
    ...Object.entries(BASE),
    ...kept,
    ...(traceparent === null ? [] : [['TRACEPARENT', traceparent] as const]),
  ])
  return { env, dropped }
}

function isRefused(name: string): boolean {
  return REFUSED.has(name) || REFUSED_PREFIXES.some((prefix) => name.startsWith(prefix))
}
