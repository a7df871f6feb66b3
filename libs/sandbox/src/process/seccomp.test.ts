/** A small BPF machine executes the filter here, so the tests check its bytes. */
import { describe, expect, test } from 'vitest'
import { ALLOWED, FORBIDDEN } from '../docker/seccomp.ts'
import { bareFilter, DENIED_CALLS, noNetworkFilter, seccompFilter, type SeccompArch } from './seccomp.ts'

const ARCH = { x64: 0xc000003e, arm64: 0xc00000b7 }
const ALLOW = 0x7fff0000
const KILL = 0x80000000
const EPERM = 0x50001
const ENOSYS = 0x50026

/** Runs classic BPF on a struct seccomp_data. */
function run(filter: Buffer, arch: number, nr: number, ...args: number[]): number {
  const data = Buffer.alloc(64)
  data.writeUInt32LE(nr, 0)
  data.writeUInt32LE(arch, 4)
  args.forEach((value, index) => data.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)), 16 + index * 8))
  let accumulator = 0
  for (let pc = 0; pc < filter.length / 8; pc++) {
    const code = filter.readUInt16LE(pc * 8)
    const k = filter.readUInt32LE(pc * 8 + 4)
    const [yes, no] = [filter.readUInt8(pc * 8 + 2), filter.readUInt8(pc * 8 + 3)]
    if (code === 0x20) accumulator = data.readUInt32LE(k)
    else if (code === 0x06) return k
    else {
      const holds =
        code === 0x15 ? accumulator === k : code === 0x35 ? accumulator >= k : (accumulator & k) >>> 0 !== 0
      pc += holds ? yes : no
    }
  }
  throw new Error('ran off the end')
}

describe.each<[SeccompArch, Record<string, number>]>([
  [
    'x64',
    {
      read: 0,
      execve: 59,
      clone: 56,
      ptrace: 101,
      unshare: 272,
      mount: 165,
      bpf: 321,
      keyctl: 250,
      prlimit: 302,
      personality: 135,
      ioctl: 16,
      socket: 41,
      socketpair: 53,
    },
  ],
  [
    'arm64',
    {
      read: 63,
      execve: 221,
      clone: 220,
      ptrace: 117,
      unshare: 97,
      mount: 40,
      bpf: 280,
      keyctl: 219,
      prlimit: 261,
      personality: 92,
      ioctl: 29,
      socket: 198,
      socketpair: 199,
    },
  ],
])('the filter of %s', (arch, nr) => {
  const filter = seccompFilter(arch, false)
  const ask = (call: number, ...args: number[]): number => run(filter, ARCH[arch], call, ...args)

  test('allows ordinary calls', () => {
    for (const call of [nr['read']!, nr['execve']!, nr['socketpair']!]) expect(ask(call)).toBe(ALLOW)
  })
  test('refuses calls that weaken a jail', () => {
    for (const call of [
      nr['ptrace']!,
      nr['unshare']!,
      nr['mount']!,
      nr['bpf']!,
      nr['keyctl']!,
      425,
      428,
      438,
      442,
    ])
      expect(ask(call), String(call)).toBe(EPERM)
  })
  test('kills a process for another architecture’s calls', () => {
    expect(run(filter, 0x40000003, nr['read']!)).toBe(KILL)
  })
  test('allows threads and forks, but no namespace', () => {
    expect(ask(nr['clone']!, 0x3d0f00)).toBe(ALLOW)
    expect(ask(nr['clone']!, 17)).toBe(ALLOW)
    for (const flag of [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
      expect(ask(nr['clone']!, flag | 17)).toBe(EPERM)
    expect(ask(435)).toBe(ENOSYS)
  })
  test('lets a process limit only itself', () => {
    expect(ask(nr['prlimit']!, 0, 7)).toBe(ALLOW)
    expect(ask(nr['prlimit']!, 1, 7)).toBe(EPERM)
  })
  test('refuses personality changes and terminal injection', () => {
    expect(ask(nr['personality']!, 0xffffffff)).toBe(ALLOW)
    expect(ask(nr['personality']!, 0x0400000)).toBe(EPERM)
    expect(ask(nr['ioctl']!, 0, 0x5412)).toBe(EPERM)
    expect(ask(nr['ioctl']!, 0, 0x541b)).toBe(ALLOW)
  })
  test('allows local sockets, or none', () => {
    const shut = bareFilter(arch, false)
    for (const family of [1, 2, 10]) {
      expect(ask(nr['socket']!, family)).toBe(ALLOW)
      expect(run(shut, ARCH[arch], nr['socket']!, family)).toBe(EPERM)
    }
    for (const family of [16, 17, 38, 40]) expect(ask(nr['socket']!, family)).not.toBe(ALLOW)
    expect(run(noNetworkFilter(arch), ARCH[arch], nr['socket']!, 1)).toBe(ALLOW)
    expect(run(noNetworkFilter(arch), ARCH[arch], nr['socket']!, 2)).toBe(EPERM)
    expect(run(noNetworkFilter(arch), ARCH[arch], nr['mount']!)).toBe(ALLOW)
  })
})

test.each([
  ['x64', 319, 29],
  ['arm64', 279, 194],
] as const)('refuses %s programs memory that the memory watch cannot see', (arch, memfd, shmget) => {
  for (const call of [memfd, shmget]) {
    expect(run(seccompFilter(arch, true), ARCH[arch], call)).toBe(EPERM)
    expect(run(bareFilter(arch, true), ARCH[arch], call)).toBe(EPERM)
    expect(run(seccompFilter(arch, false), ARCH[arch], call)).toBe(ALLOW)
  }
})

test('denies everything that the container profile forbids, and nothing that it allows', () => {
  // Old 32-bit names, and calls that depend on arguments or do not exist on 64-bit machines.
  const elsewhere = ['umount', 'clone', 'personality', 'socket']
  expect(FORBIDDEN.filter((name) => !DENIED_CALLS.includes(name) && !elsewhere.includes(name))).toEqual([])
  expect(ALLOWED.filter((name) => DENIED_CALLS.includes(name))).toEqual([])
})

test.each(['x64', 'arm64'] as const)('has no call of %s above its highest known number', (arch) => {
  for (const call of [470, 471, 500, 1023])
    for (const filter of [seccompFilter(arch, false), bareFilter(arch, true)])
      expect(run(filter, ARCH[arch], call), String(call)).toBe(ENOSYS)
})

test('refuses the x32 form of every call', () => {
  expect(run(seccompFilter('x64', false), ARCH.x64, 0x40000000 + 39)).toBe(EPERM)
})

test.each([
  [
    'x64',
    {
      chmod: 90,
      fchmod: 91,
      utimensat: 280,
      shmget: 29,
      watch: 254,
      priority: 141,
      io: 251,
      affinity: 203,
      aio: 206,
    },
  ],
  [
    'arm64',
    {
      chmod: 53,
      fchmod: 52,
      utimensat: 88,
      shmget: 194,
      watch: 27,
      priority: 140,
      io: 30,
      affinity: 122,
      aio: 0,
    },
  ],
] as const)('without namespaces refuses %s programs changes of mode and owner', (arch, nr) => {
  const ask = (call: number, ...args: number[]): number =>
    run(bareFilter(arch, false), ARCH[arch], call, ...args)
  for (const call of [nr.chmod, nr.fchmod, nr.shmget, nr.watch, nr.aio]) {
    expect(ask(call, 5), String(call)).toBe(EPERM)
    expect(run(seccompFilter(arch, false), ARCH[arch], call, 5)).toBe(call === nr.aio ? EPERM : ALLOW)
  }
  expect(ask(nr.utimensat, 3, 0)).toBe(ALLOW)
  for (const path of [0x1000, 0x7f00_0000_0000]) expect(ask(nr.utimensat, 3, path)).toBe(EPERM)
  expect([ask(nr.affinity, 0), ask(nr.affinity, 1)]).toEqual([ALLOW, EPERM])
  expect([ask(nr.priority, 0, 0), ask(nr.priority, 0, 7), ask(nr.priority, 2, 0)]).toEqual([
    ALLOW,
    EPERM,
    EPERM,
  ])
  expect([ask(nr.io, 1, 0), ask(nr.io, 1, 7), ask(nr.io, 3, 0)]).toEqual([ALLOW, EPERM, EPERM])
})
