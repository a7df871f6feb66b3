/** What `doctor --production` says of a host. A folder stands for the host's file system. */
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { needs } from '@cofferdam/embedded/needs'
import { checkHost, probeOf } from './check-host.ts'
import type { HostFinding } from './host-advice.ts'
import type { FirecrackerSettings } from './settings.ts'

let root: string
let bin: string
const settings = (over: Partial<FirecrackerSettings> = {}): FirecrackerSettings => ({
  firecracker: join(bin, 'firecracker'),
  jailer: join(bin, 'jailer'),
  chrootBase: '/tmp',
  uids: { first: 1_901_000_000, count: 64 },
  parentCgroup: 'cofferdam-fc',
  ...over,
})

async function put(path: string, text: string): Promise<void> {
  await mkdir(dirname(join(root, path)), { recursive: true })
  await writeFile(join(root, path), text)
}
async function program(name: string, version: string): Promise<void> {
  await writeFile(
    join(bin, name),
    `#!/bin/sh\necho "${name === 'jailer' ? 'Jailer' : 'Firecracker'} v${version}"\n`,
  )
  await chmod(join(bin, name), 0o755)
}

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'cofferdam-fc-host-'))
  await chmod(root, 0o755)
  bin = join(root, 'bin')
  await mkdir(bin)
  await program('firecracker', '1.16.1')
  await program('jailer', '1.16.1')
  await put(
    'proc/self/mounts',
    '/dev/vda / ext4 rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,favordynmods 0 0\n',
  )
  await put('sys/fs/cgroup/cgroup.controllers', 'cpuset cpu io memory pids\n')
  await put('proc/swaps', 'Filename Type Size Used Priority\n')
  await put('proc/sys/kernel/osrelease', '6.18.2\n')
  await put('sys/kernel/mm/ksm/run', '0\n')
  await put('sys/devices/system/cpu/smt/active', '0\n')
  await put('sys/devices/system/cpu/vulnerabilities/mds', 'Not affected\n')
  await put('proc/cpuinfo', 'flags\t: vmx\n')
  await put('dev/kvm', '')
  await put('etc/passwd', 'root:x:0:0::/root:/bin/sh\n')
})
afterEach(() => rm(root, { recursive: true }))

const by = (findings: HostFinding[], name: string): HostFinding | undefined =>
  findings.find((one) => one.name === name)
const look = (over: Partial<FirecrackerSettings> = {}): Promise<HostFinding[]> =>
  checkHost(settings(over), { root, double: true })

needs('root').it('finds nothing to mend on a host that is as it should be', async () => {
  const findings = await look()
  expect(findings.filter(({ ok }) => !ok)).toEqual([])
  expect(probeOf(findings)).toMatchObject({
    ok: true,
    features: expect.arrayContaining(['binaries: firecracker and jailer 1.16.1']),
  })
})

needs('root').it('asks for static programs and hardware where nothing is a double', async () => {
  const findings = await checkHost(settings(), { root })
  expect(by(findings, 'binaries')).toMatchObject({
    ok: false,
    found: expect.stringContaining('is no program'),
  })
  expect(by(findings, 'hardware')).toMatchObject({ ok: true })
  await writeFile(join(root, 'proc/cpuinfo'), 'flags\t: sse2\n')
  expect(by(await checkHost(settings(), { root }), 'hardware')).toMatchObject({ ok: false, needed: true })
  const dynamic = { firecracker: process.execPath, jailer: process.execPath }
  expect(by(await checkHost(settings(dynamic), { root }), 'binaries')?.ok).toBe(false)
})

needs('root').it.each<[string, () => Promise<unknown>, Partial<FirecrackerSettings>, string]>([
  ['binaries', () => program('jailer', '1.17.0'), {}, 'both must be of one release'],
  ['binaries', () => program('firecracker', '1.16.0'), {}, 'older than 1.16.1'],
  ['binaries', () => chmod(join(root, 'bin'), 0o777), {}, 'can be changed by others than root'],
  ['binaries', async () => {}, { jailer: '/absent/jailer' }, 'There is no /absent/jailer'],
  ['cgroup', () => put('proc/self/mounts', '/dev/vda / ext4 rw 0 0\n'), {}, 'not mounted'],
  ['chroot base', async () => {}, { chrootBase: '/a/path/of/more/than/24' + '0' }, 'There is no'],
  ['chroot base', async () => {}, { chrootBase: `/${'x'.repeat(24)}` }, 'longer than 24 bytes'],
  ['chroot base', () => put('proc/self/mounts', 'tmp /tmp tmpfs rw,noexec,nodev 0 0\n'), {}, 'noexec, nodev'],
  ['users', () => put('etc/passwd', 'ann:x:1901000007:1::/:/bin/sh\n'), {}, 'The user ann'],
])('needs %s (case %#)', async (name, spoil, over, words) => {
  await spoil()
  expect(by(await look(over), name)).toMatchObject({
    ok: false,
    needed: true,
    found: expect.stringContaining(words),
  })
})

test('needs the controllers at the root of cgroup v2', async () => {
  await put('sys/fs/cgroup/cgroup.controllers', 'cpuset io\n')
  const found = by(await checkHost(settings(), { root }), 'cgroup')
  expect(found).toMatchObject({ ok: false, found: expect.stringContaining('lacks cpu, memory, pids') })
})

test.each([
  ['SMT', 'sys/devices/system/cpu/smt/active', '1\n'],
  ['swap', 'proc/swaps', 'Filename Type\n/dev/vdb partition 1 0 -2\n'],
  ['KSM', 'sys/kernel/mm/ksm/run', '1\n'],
  ['processor', 'sys/devices/system/cpu/vulnerabilities/mds', 'Vulnerable: no microcode\n'],
  ['start of machines', 'proc/self/mounts', 'cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n'],
  ['host kernel', 'proc/sys/kernel/osrelease', '5.10.0\n'],
])('advises about %s, and refuses nothing for it', async (name, path, text) => {
  await put(path, text)
  expect(by(await look(), name)).toMatchObject({ ok: false, needed: false })
})
