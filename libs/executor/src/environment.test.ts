import { describe, expect, it } from 'vitest'
import { programEnvironment } from './environment.ts'

describe('programEnvironment', () => {
  it('has a base, which the request can change, and the trace', () => {
    expect(programEnvironment({ LANG: 'de_DE.UTF-8', DEBUG: '1' }, '00-a-b-01').env).toEqual({
      HOME: '/tmp',
      LANG: 'de_DE.UTF-8',
      TMPDIR: '/tmp',
      DEBUG: '1',
      TRACEPARENT: '00-a-b-01',
    })
  })

  it.each([
    'LD_PRELOAD',
    'LD_LIBRARY_PATH',
    'LD_AUDIT',
    'LD_DEBUG',
    'DYLD_INSERT_LIBRARIES',
    'DYLD_LIBRARY_PATH',
    '_RLD_LIST',
    'GLIBC_TUNABLES',
    'MALLOC_CHECK_',
    'GCONV_PATH',
    'LOCPATH',
    'NLSPATH',
    'GETCONF_DIR',
    'RESOLV_HOST_CONF',
    'TZDIR',
    'NODE_OPTIONS',
    'NODE_PATH',
    'NODE_REPL_EXTERNAL_MODULE',
    'NODE_EXTRA_CA_CERTS',
    'NODE_V8_COVERAGE',
    'PYTHONPATH',
    'PYTHONSTARTUP',
    'PYTHONHOME',
    'PYTHONINSPECT',
    'PYTHONBREAKPOINT',
    'PYTHONWARNINGS',
    'PYTHONUSERBASE',
    'PYTHONPLATLIBDIR',
    'PYTHONPYCACHEPREFIX',
    'PYTHONIOENCODING',
    'PYTHONEXECUTABLE',
    'BASH_ENV',
    'BASH_FUNC_ls%%',
    'BASHOPTS',
    'SHELLOPTS',
    'ENV',
    'IFS',
    'PS4',
    'PROMPT_COMMAND',
    'CDPATH',
    'ZDOTDIR',
    'PERL5OPT',
    'PERL5LIB',
    'PERL5DB',
    'PERLLIB',
    'PERLIO_DEBUG',
    'RUBYOPT',
    'RUBYLIB',
    'GEM_PATH',
    'LUA_INIT',
    'GIT_SSH_COMMAND',
    'GIT_EXEC_PATH',
    'GIT_CONFIG_COUNT',
    'GIT_CONFIG_GLOBAL',
    'GIT_DIR',
    'GIT_PAGER',
    'GIT_TRACE',
    'JAVA_TOOL_OPTIONS',
    '_JAVA_OPTIONS',
    'CLASSPATH',
    'OPENSSL_CONF',
    'PHPRC',
    'npm_config_script_shell',
    'PIP_INDEX_URL',
    'LESSOPEN',
    'PAGER',
    'EDITOR',
    'SSH_ASKPASS',
    'SSH_AUTH_SOCK',
    'COFFERDAM_OUTPUT_KEYS',
    'TRACEPARENT',
    'TRACESTATE',
  ])('leaves %s out and says so', (name) => {
    const { env, dropped } = programEnvironment({ [name]: 'x', FINE: 'y' }, null)
    expect(env).not.toHaveProperty(name)
    expect(env).toHaveProperty('FINE', 'y')
    expect(dropped).toEqual([name])
  })

  it.each([
    'PYTHONUNBUFFERED',
    'PYTHONHASHSEED',
    'PYTHONDONTWRITEBYTECODE',
    'PYTHONUTF8',
    'PYTHONOPTIMIZE',
    'NODE_ENV',
    'NODE_NO_WARNINGS',
    'GIT_AUTHOR_NAME',
    'GIT_COMMITTER_EMAIL',
    'GIT_TERMINAL_PROMPT',
    'TZ',
    'LANG',
    'LC_ALL',
    'PATH',
    'DEBUG',
    'CI',
    'ENVIRONMENT',
    'MY_LD_PRELOAD',
    'ld_preload',
    'FORCE_COLOR',
    'GITHUB_TOKEN',
    'AWS_SECRET_ACCESS_KEY',
    'DB_PASSWORD',
    'STRIPE_SECRET',
    'OPENAI_API_KEY',
  ])('lets %s through', (name) => {
    expect(programEnvironment({ [name]: '1' }, null)).toMatchObject({ env: { [name]: '1' }, dropped: [] })
  })

  it('has nothing of the process that composes it', () => {
    const { env } = programEnvironment({}, null)
    expect(Object.keys(env).toSorted()).toEqual(['HOME', 'LANG', 'TMPDIR'])
  })

  it('treats __proto__ like any other variable', () => {
    const requested = JSON.parse('{"__proto__": "x"}') as Record<string, string>
    const { env } = programEnvironment(requested, null)
    expect(Object.hasOwn(env, '__proto__')).toBe(true)
    expect(Object.getPrototypeOf(env)).toBe(Object.prototype)
  })
})
