import { describe, expect, it } from 'vitest'
import { programEnvironment } from './environment.ts'

describe('programEnvironment', () => {
  it('gives a base, lets the request change it, and adds the trace', () => {
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
    'DYLD_INSERT_LIBRARIES',
    'NODE_OPTIONS',
    'PYTHONPATH',
    'PYTHONSTARTUP',
    'PYTHONHOME',
    'BASH_ENV',
    'ENV',
    'IFS',
    'PERL5OPT',
    'RUBYOPT',
    'GIT_SSH_COMMAND',
    'GIT_EXEC_PATH',
    'GIT_CONFIG_COUNT',
    'GLIBC_TUNABLES',
    'TRACEPARENT',
  ])('leaves %s out and says so', (name) => {
    const { env, dropped } = programEnvironment({ [name]: 'x', FINE: 'y' }, null)
    expect(env).not.toHaveProperty(name)
    expect(env).toHaveProperty('FINE', 'y')
    expect(dropped).toEqual([name])
  })

  it('treats __proto__ as a variable like any other', () => {
    const requested = JSON.parse('{"__proto__": "x"}') as Record<string, string>
    const { env } = programEnvironment(requested, null)
    expect(Object.hasOwn(env, '__proto__')).toBe(true)
    expect(Object.getPrototypeOf(env)).toBe(Object.prototype)
  })
})
