import { expect, test } from 'vitest'
import { isJailId, jailerArguments, jailId, planJail } from './jail.ts'
import { firecrackerConfigSchema, settingsOf } from './settings.ts'
import { refuseVersion } from './version.ts'

const settings = settingsOf(firecrackerConfigSchema.parse({}))

test('gives a machine the same jail by its name, with letters that the jailer takes', () => {
  const id = jailId('clone', 'sbx_0123')
  expect(id).toBe(jailId('clone', 'sbx_0123'))
  expect(id).not.toBe(jailId('template', 'sbx_0123'))
  expect(id).toMatch(/^[A-Za-z0-9-]{26}$/)
  expect([id, '../x', 'c-', `${id}/..`].map(isJailId)).toEqual([true, false, false, false])
})

test('keeps every socket within what the kernel takes, at the longest base and name', () => {
  const longest = {
    ...settings,
    chrootBase: '/srv/firecracker-machine',
    firecracker: `/opt/${'f'.repeat(26)}`,
  }
  expect(Buffer.byteLength(longest.chrootBase)).toBe(24)
  const jail = planJail(longest, '/sys/fs/cgroup', jailId('clone', 'sbx_1'))
  expect(Buffer.byteLength(`${jail.vsock}_65535`)).toBeLessThanOrEqual(107)
  expect(Buffer.byteLength(jail.api)).toBeLessThanOrEqual(107)
  const tooLong = { ...longest, firecracker: `/opt/${'f'.repeat(60)}` }
  expect(() => planJail(tooLong, '/sys/fs/cgroup', jail.id)).toThrow(/Shorten chroot_base/)
})

test('tells the jailer user, group, limits and the API, and the VMM nothing else', () => {
  const jail = planJail(settings, '/sys/fs/cgroup', jailId('clone', 'sbx_1'))
  const words = jailerArguments(settings, jail, { uid: 1_901_000_007, memoryMib: 512, vcpus: 2, fileMib: 16 })
  expect(words).toEqual(
    [
      `--id ${jail.id} --exec-file /usr/local/bin/firecracker --uid 1901000007 --gid 1901000007`,
      `--chroot-base-dir /srv/fc --cgroup-version 2 --parent-cgroup cofferdam-fc`,
      `--cgroup memory.max=603979776 --cgroup pids.max=34 --cgroup cpu.max=200000_100000`,
      `--resource-limit fsize=16777216 --resource-limit no-file=2048 --new-pid-ns -- --api-sock /run/fc.sock`,
    ]
      .join(' ')
      .split(' ')
      .map((word) => word.replace('_100000', ' 100000')),
  )
  expect(words).not.toContain('--no-seccomp')
})

test.each([
  ['1.16.1', true],
  ['v1.16.2', true],
  ['1.17.0', true],
  ['1.17.0-dev', true],
  ['1.100.0', true],
  ['1.16.0', false],
  ['1.15.1', false],
  ['0.99.99', false],
  ['2.0.0', false],
  ['1.16', false],
  ['1.16.1; rm', false],
  ['', false],
])('decides of version %j: %s', (version, isTaken) => {
  expect(refuseVersion(version) === null).toBe(isTaken)
})

test.each([
  { parent_cgroup: '../other' },
  { parent_cgroup: 'a/../../b' },
  { parent_cgroup: '/absolute' },
  { firecracker: 'firecracker' },
  { first_uid: 1000 },
  { unknown: 1 },
])('refuses the settings %j', (given) => {
  expect(firecrackerConfigSchema.safeParse(given).success).toBe(false)
})
