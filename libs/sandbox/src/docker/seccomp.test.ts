import { expect, test } from 'vitest'
import { ALLOWED, FORBIDDEN, seccompProfile } from './seccomp.ts'

test('allows none of the forbidden calls', () => {
  const allowed = new Set(ALLOWED)
  expect(FORBIDDEN.filter((name) => allowed.has(name))).toEqual([])
  expect(FORBIDDEN).toContain('io_uring_setup')
})

test('names each call once', () => {
  expect(ALLOWED.filter((name, index) => ALLOWED.indexOf(name) !== index)).toEqual([])
})

test('denies by default, has one architecture per host, and allows clone no namespace', () => {
  expect(seccompProfile()).toMatchObject({
    defaultAction: 'SCMP_ACT_ERRNO',
    archMap: [
      { architecture: 'SCMP_ARCH_X86_64', subArchitectures: [] },
      { architecture: 'SCMP_ARCH_AARCH64', subArchitectures: [] },
    ],
    syscalls: expect.arrayContaining([
      {
        names: ['clone'],
        action: 'SCMP_ACT_ALLOW',
        args: [{ index: 0, value: 2114060288, valueTwo: 0, op: 'SCMP_CMP_MASKED_EQ' }],
      },
      { names: ['clone3'], action: 'SCMP_ACT_ERRNO', errnoRet: 38 },
    ]),
  })
})
