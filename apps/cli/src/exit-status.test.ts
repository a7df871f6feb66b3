import { ENDINGS, type Ending } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import { exitStatusFor } from './exit-status.ts'

const of = (ending: Ending, exit_code: number | null = null, signal: string | null = null) =>
  exitStatusFor({ ending, exit_code, signal })

describe('exitStatusFor', () => {
  it('is the status of the program if it has one', () => {
    expect(of('ok', 0)).toBe(0)
    expect(of('error', 3)).toBe(3)
    expect(of('crashed', null, 'SIGSEGV')).toBe(139)
    expect(of('output_limit', null, 'SIGKILL')).toBe(137)
  })

  it('is 124 for a timeout, 137 for out of memory, and 130 for a cancel', () => {
    expect(of('soft_timeout', 0)).toBe(124)
    expect(of('hard_timeout', null, 'SIGKILL')).toBe(124)
    expect(of('oom', null, 'SIGKILL')).toBe(137)
    expect(of('cancelled', null, 'SIGTERM')).toBe(130)
  })

  it('is 1 when the platform failed or refused', () => {
    for (const ending of [
      'policy_denied',
      'cap_exceeded',
      'provisioning',
      'sandbox_lost',
      'worker_lost',
    ] as const)
      expect(of(ending)).toBe(1)
  })

  it('is 0 only for the ending ok', () => {
    for (const ending of ENDINGS) expect(of(ending, 0) === 0).toBe(ending === 'ok')
  })
})
