import { describe, expect, it } from 'vitest'
import { command } from './commands/tenant.ts'
import { parseCommandLine } from './parse-command-line.ts'
import { policyOf, templateOf } from './policy-flags.ts'

const line = (...args: string[]) => parseCommandLine('tenant', command, ['set', 't', ...args])

describe('tenant set', () => {
  it('sends only the fields that its flags name', () => {
    expect(policyOf(line('--retention-days', '5'))).toEqual({ retention_days: 5 })
    expect(policyOf(line('--network', 'none', '--encrypt-outputs', 'true'))).toEqual({
      network: 'none',
      encrypt_outputs: true,
    })
    expect(policyOf(line('--network', 'pypi.org, *.example.com:443'))).toEqual({
      network: { allow: ['pypi.org', '*.example.com:443'] },
    })
    expect(policyOf(line('--keep-program', 'errors'))).toEqual({ keep_program: 'errors' })
    expect(policyOf(line('--run-sessions', 'true'))).toEqual({ run_sessions: true })
    expect(policyOf(line('--run-sessions', 'false'))).toEqual({ run_sessions: false })
    expect(policyOf(line('--allow-emulation', 'true'))).toEqual({ allow_emulation: true })
    expect(() => policyOf(line('--run-sessions', 'on'))).toThrow('expects true or false')
    expect(() => policyOf(line('--encrypt-outputs', 'yes'))).toThrow('expects true or false')
  })

  it('keeps the part of a field that no flag names', () => {
    const now = {
      commands: { allow: ['ls'], block: ['rm'] },
      packages: { pypi: ['numpy'], npm: [] },
    } as unknown as Parameters<typeof policyOf>[1]
    expect(policyOf(line('--block-commands', 'curl,git push'), now)).toEqual({
      commands: { allow: ['ls'], block: ['curl', 'git push'] },
    })
    expect(policyOf(line('--allow-commands', 'any'), now)).toEqual({
      commands: { allow: null, block: ['rm'] },
    })
    expect(policyOf(line('--block-commands', 'none', '--npm-packages', '@types/*'), now)).toEqual({
      commands: { allow: ['ls'], block: [] },
      packages: { pypi: ['numpy'], npm: ['@types/*'] },
    })
  })
})

describe('tenant set-template', () => {
  it('sends a whole template', () => {
    const regulated = ['--environment', 'internal-only', '--network', 'none', '--min-isolation', 'gvisor']
    expect(templateOf(line(...regulated, '--retention-days', '7', '--encrypt-outputs', 'true'))).toEqual({
      environment: 'internal-only',
      network: 'none',
      min_isolation: 'gvisor',
      retention_days: 7,
      encrypt_outputs: true,
    })
    expect(templateOf(line('--environment', 'off'))).toBe(null)
    expect(() => templateOf(line())).toThrow('set-template needs --environment')
  })
})
