import { newSandboxId, newWorkerId } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import { containerOptions, type ContainerSpec } from './container-options.ts'

const slot: ContainerSpec = {
  slotId: newSandboxId(),
  owner: newWorkerId('0123456789ab'),
  image: 'sha256:35c985d8b95b',
  runtime: null,
  socketFolder: null,
  cell: false,
  preload: [],
  language: 'python',
  limits: { memory_mib: 256, cpus: 0.5, pids: 64, disk_mib: 64 },
}

test('sets every hardening option of the container', () => {
  const options = containerOptions(slot)
  expect(options).toMatchObject({
    name: `cofferdam-${slot.slotId}`,
    Hostname: 'sandbox',
    NetworkDisabled: true,
    OpenStdin: true,
    StdinOnce: true,
    Tty: false,
    Labels: { 'cofferdam.owner': slot.owner, 'cofferdam.sandbox': slot.slotId },
    HostConfig: {
      NetworkMode: 'none',
      ReadonlyRootfs: true,
      CapDrop: ['ALL'],
      CapAdd: ['SETUID', 'SETGID', 'KILL'],
      Privileged: false,
      Memory: (256 + 16) * 1_048_576,
      MemorySwap: (256 + 16) * 1_048_576,
      CpuPeriod: 100_000,
      CpuQuota: 50_000,
      PidsLimit: 65,
      Tmpfs: { '/tmp': 'rw,exec,nosuid,nodev,size=64m,nr_inodes=16384,mode=1777' },
      ShmSize: 16_777_216,
      LogConfig: { Type: 'none', Config: {} },
      AutoRemove: true,
      Init: false,
    },
  })
  expect(options.HostConfig?.SecurityOpt?.[0]).toBe('no-new-privileges')
  expect(options.HostConfig?.SecurityOpt?.[1]).toMatch(/^seccomp=\{"defaultAction":"SCMP_ACT_ERRNO"/)
  expect(options.HostConfig?.MaskedPaths).toEqual(
    expect.arrayContaining(['/proc/kcore', '/proc/cmdline', '/sys/firmware']),
  )
  expect(options.HostConfig?.Ulimits).toEqual([
    { Name: 'nofile', Soft: 4096, Hard: 4096 },
    { Name: 'core', Soft: 0, Hard: 0 },
  ])
  expect(options.HostConfig).not.toHaveProperty('Runtime')
  expect(options.HostConfig).not.toHaveProperty('Binds')
  expect(options.HostConfig).not.toHaveProperty('Mounts')
  expect(options.AttachStdout).toBe(true)
})

test('mounts only the socket’s folder, read-only, and never lets the daemon create it', () => {
  const options = containerOptions({ ...slot, socketFolder: '/tmp/cofd-0/0a1b/2c3d' })
  expect(options.HostConfig?.Mounts).toEqual([
    { Type: 'bind', Source: '/tmp/cofd-0/0a1b/2c3d', Target: '/run/cofferdam', ReadOnly: true },
  ])
  expect(options.HostConfig).not.toHaveProperty('Binds')
  expect(options.Entrypoint).toEqual(expect.arrayContaining(['--socket', '/run/cofferdam/s']))
  expect(options).toMatchObject({ AttachStdin: true, AttachStdout: false, AttachStderr: true })
})

test('starts a cell with its preload modules', () => {
  const { Entrypoint: argv } = containerOptions({ ...slot, cell: true, preload: ['numpy', 'pandas'] })
  expect(argv).toEqual(expect.arrayContaining(['--cell']))
  expect((argv as string[]).join(' ')).toContain('--preload numpy --preload pandas')
})

test('reads no counters of a virtual machine and gives it no socket', () => {
  const options = containerOptions({ ...slot, runtime: 'io.containerd.kata.v2' })
  expect(options.Entrypoint).not.toContain('--cgroup')
  expect(options.HostConfig).toMatchObject({ Runtime: 'io.containerd.kata.v2' })
})

test('never gives a disk larger than the memory that holds it', () => {
  const options = containerOptions({ ...slot, limits: { ...slot.limits, memory_mib: 32, disk_mib: 1024 } })
  expect(options.HostConfig?.Tmpfs?.['/tmp']).toContain('size=32m')
})

test('leaves headroom for the threads of a user-space kernel', () => {
  const options = containerOptions({ ...slot, runtime: 'runsc' })
  expect(options.HostConfig).toMatchObject({
    Runtime: 'runsc',
    PidsLimit: 2048,
    Memory: (256 + 32) * 1_048_576,
  })
})

test('gives a larger disk more files, one per page', () => {
  const large = { ...slot.limits, memory_mib: 2048, disk_mib: 1024 }
  const options = containerOptions({ ...slot, limits: large })
  expect(options.HostConfig?.Tmpfs?.['/tmp']).toContain('size=1024m,nr_inodes=262144,')
})

test('lets the agent limit processes if the cgroup counts those of another kernel', () => {
  const argv = (runtime: string | null): string =>
    [containerOptions({ ...slot, runtime }).Entrypoint ?? []].flat().join(' ')
  expect(argv('runsc')).toContain('--rlimit nproc=63')
  expect(argv('runsc')).not.toContain('--cgroup')
  expect(argv(null)).not.toContain('--rlimit nproc')
})
