/**
 * The environment of a program: our base, then the request's variables, except names that make a loader, an
 * interpreter or a tool run other code. The sandbox is the security boundary. Leaving these names out only
 * protects the runner inside it. The names come from sudo's initial_badenv_table, glibc's unsecvars, and the
 * manual pages of bash, Python, Node.js, Perl, Ruby and git. Names that look like secrets are allowed. Their
 * values are redacted from everything the program prints (secret-forms.ts).
 */

/** Without PATH, because only the backend knows where its interpreters are. */
const BASE: Readonly<Record<string, string>> = {
  HOME: '/tmp',
  LANG: 'C.UTF-8',
  TMPDIR: '/tmp',
}

const REFUSED_PREFIXES = [
  // Dynamic loaders and libc: LD_PRELOAD, DYLD_INSERT_LIBRARIES, GLIBC_TUNABLES, MALLOC_CHECK_, _RLD_LIST.
  'LD_',
  'DYLD_',
  'GLIBC_',
  'MALLOC_',
  '_RLD',
  // PYTHONSTARTUP, PYTHONHOME, PYTHONINSPECT, … Some are allowed below.
  'PYTHON',
  // NODE_OPTIONS, NODE_PATH, NODE_EXTRA_CA_CERTS, NODE_V8_COVERAGE, … Some are allowed below.
  'NODE_',
  // Functions that bash imports (Shellshock), and our own names.
  'BASH_',
  'COFFERDAM_',
  // Nearly every git variable names a command, a file that names commands, or another repository.
  'GIT_',
  // Modules, options and debuggers of interpreters.
  'PERL',
  'RUBY',
  'LUA_',
  'OPENSSL_',
  // npm takes every option from its environment: script-shell, node-options, registry.
  'npm_config_',
  'NPM_CONFIG_',
  'PIP_',
  'UV_',
  'YARN_',
]

/**
 * Names with a refused prefix that users need and that make nothing else run: they change how an interpreter
 * prints, hashes or writes caches. PYTHONPATH and NODE_PATH are not allowed, because modules found there
 * would replace those that the runner itself imports. A program can change `sys.path`, or import by path.
 */
const LET_THROUGH = new Set([
  'PYTHONUNBUFFERED',
  'PYTHONHASHSEED',
  'PYTHONDONTWRITEBYTECODE',
  'PYTHONUTF8',
  'PYTHONFAULTHANDLER',
  'PYTHONOPTIMIZE',
  'PYTHONTRACEMALLOC',
  'PYTHONNODEBUGRANGES',
  'NODE_ENV',
  'NODE_NO_WARNINGS',
  'NODE_DISABLE_COLORS',
  'NODE_PENDING_DEPRECATION',
  // The author of commits is data, not a command.
  'GIT_AUTHOR_NAME',
  'GIT_AUTHOR_EMAIL',
  'GIT_AUTHOR_DATE',
  'GIT_COMMITTER_NAME',
  'GIT_COMMITTER_EMAIL',
  'GIT_COMMITTER_DATE',
  'GIT_TERMINAL_PROMPT',
])

const REFUSED = new Set([
  'BASHOPTS',
  'ENV',
  'IFS',
  'CDPATH',
  'GLOBIGNORE',
  'PS0',
  'PS1',
  'PS2',
  'PS4',
  'SHELLOPTS',
  'PROMPT_COMMAND',
  'ZDOTDIR',
  'JAVA_TOOL_OPTIONS',
  '_JAVA_OPTIONS',
  'JDK_JAVA_OPTIONS',
  'CLASSPATH',
  'GEM_HOME',
  'GEM_PATH',
  'BUNDLE_GEMFILE',
  'PHPRC',
  'PHP_INI_SCAN_DIR',
  'GOFLAGS',
  'RUSTC_WRAPPER',
  'RUSTFLAGS',
  'CARGO_HOME',
  'ERL_AFLAGS',
  'R_PROFILE',
  'JULIA_LOAD_PATH',
  'AWKPATH',
  'AWKLIBPATH',
  'GCONV_PATH',
  'GETCONF_DIR',
  'LOCPATH',
  'NLSPATH',
  'NIS_PATH',
  'TZDIR',
  'RESOLV_HOST_CONF',
  'RES_OPTIONS',
  'HOSTALIASES',
  'LOCALDOMAIN',
  'TERMINFO',
  'TERMINFO_DIRS',
  'TERMCAP',
  'SSH_ASKPASS',
  'SSH_AUTH_SOCK',
  'SUDO_ASKPASS',
  'EDITOR',
  'VISUAL',
  'PAGER',
  'MANPAGER',
  'LESSOPEN',
  'LESSCLOSE',
  'BROWSER',
  // We set these, so that the program's own spans are children of `program.run`.
  'TRACEPARENT',
  'TRACESTATE',
])

export interface ProgramEnvironment {
  env: Record<string, string>
  /** Names of the request that were left out, in its order. */
  dropped: string[]
}

/** `traceparent` is left out when null. */
export function programEnvironment(
  requested: Readonly<Record<string, string>>,
  traceparent: string | null,
): ProgramEnvironment {
  const dropped = droppedVariables(requested)
  const kept = Object.entries(requested).filter(([name]) => !isRefused(name))
  // fromEntries defines own properties, so a variable called __proto__ is only a variable.
  const env = Object.fromEntries([
    ...Object.entries(BASE),
    ...kept,
    ...(traceparent === null ? [] : [['TRACEPARENT', traceparent] as const]),
  ])
  return { env, dropped }
}

/** The request's variables that a program does not get, in the request's order. */
export const droppedVariables = (requested: Readonly<Record<string, string>>): string[] =>
  Object.keys(requested).filter(isRefused)

function isRefused(name: string): boolean {
  if (LET_THROUGH.has(name)) return false
  return REFUSED.has(name) || REFUSED_PREFIXES.some((prefix) => name.startsWith(prefix))
}
