/**
 * Whether a host can run Firecracker as it should be run. The needed parts follow from docs/jailer.md of
 * Firecracker. `cofferdam doctor --production` shows them, and the advice of host-advice.ts.
 */
import { open, readFile, realpath, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { findHardwareVirtualisation } from '@cofferdam/sandbox/backend'
import type { EngineProbe } from '../engine.ts'
import { adviseHost, textOf, type HostFinding } from './host-advice.ts'
import { CHROOT_BASE_BYTES } from './jail.ts'
import type { FirecrackerSettings } from './settings.ts'
import { refuseVersion, versionOf } from './version.ts'

export interface HostOptions {
  /** The binaries are the double’s. */
  double?: boolean
  /** Where this host’s /proc and /sys are. Tests name a folder of their own. */
  root?: string
}

const CONTROLLERS = ['cpu', 'memory', 'pids']

/** All findings, the needed ones first. */
export async function checkHost(
  settings: FirecrackerSettings,
  options: HostOptions = {},
): Promise<HostFinding[]> {
  const root = options.root ?? '/'
  const needed = [
    await binaries(settings, options.double === true),
    rights(),
    ...(options.double === true ? [] : [await hardware(root)]),
    await cgroups(root, options.double === true),
    await chrootBase(settings, root),
    await users(settings, root),
  ]
  return [...needed, ...(await adviseHost(root))]
}

export function probeOf(findings: readonly HostFinding[]): EngineProbe {
  const missing = findings.find(({ ok, needed }) => needed && !ok)
  if (missing !== undefined) return { ok: false, why: missing.found, fix: missing.fix }
  return {
    ok: true,
    features: findings.map(({ name, ok, found, fix }) => `${name}: ${found}${ok ? '' : ` (${fix})`}`),
  }
}

const need = (name: string, problem: string | null, found: string, fix: string): HostFinding => ({
  name,
  ok: problem === null,
  found: problem ?? found,
  fix,
  needed: true,
})
async function binaries(settings: FirecrackerSettings, isDouble: boolean): Promise<HostFinding> {
  const { firecracker, jailer } = settings
  const fix =
    `Install firecracker and jailer of one release (1.16.1 or newer, static) as ${firecracker} and ` +
    `${jailer}, owned by root.`
  const result = (problem: string | null, found = ''): HostFinding => need('binaries', problem, found, fix)
  for (const path of [firecracker, jailer]) {
    const problem = (await writableByOthers(path)) ?? (isDouble ? null : await dynamic(path))
    if (problem !== null) return result(problem)
  }
  const [vmm, jail] = await Promise.all([versionOf(firecracker), versionOf(jailer)])
  if (vmm === null) return result(`${firecracker} does not tell its version.`)
  if (jail === null) return result(`${jailer} does not tell its version.`)
  const refusal = refuseVersion(vmm)
  if (refusal !== null) return result(`${firecracker} is not used: ${refusal}.`)
  if (vmm !== jail) return result(`firecracker is ${vmm} and jailer ${jail}; both must be of one release.`)
  return result(null, `firecracker and jailer ${vmm}`)
}

/**
 * Root runs the jailer, so whoever may write it, or a folder above it, can become root. Says what others can
 * change.
 */
async function writableByOthers(path: string): Promise<string | null> {
  let at: string
  try {
    at = await realpath(path)
  } catch {
    return `There is no ${path}.`
  }
  for (; ; at = dirname(at)) {
    const { uid, mode } = await stat(at)
    // A folder with the sticky bit, as /tmp, lets nobody replace what belongs to others.
    const isOpen = (mode & 0o022) !== 0 && (mode & 0o1000) === 0
    if (uid !== 0 || isOpen) return `${at} can be changed by others than root.`
    if (at === '/') return null
  }
}

/** Program header type PT_INTERP: the file needs a loader, which is not in the jail. */
const PT_INTERP = 3
const HEADER_BYTES = 4096

async function dynamic(path: string): Promise<string | null> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0)
    if (bytesRead < 64 || buffer.readUInt32BE(0) !== 0x7f454c46) return `${path} is no program (ELF).`
    const [start, size, count] = [
      Number(buffer.readBigUInt64LE(32)),
      buffer.readUInt16LE(54),
      buffer.readUInt16LE(56),
    ]
    for (let header = 0; header < count; header++) {
      const at = start + header * size
      if (at + 4 <= bytesRead && buffer.readUInt32LE(at) === PT_INTERP)
        return `${path} is linked dynamically; the jail has no libraries.`
    }
    return null
  } finally {
    await file.close()
  }
}

const rights = (): HostFinding =>
  need(
    'user',
    process.getuid?.() === 0 ? null : 'The worker is not root, which the jailer needs to make a jail.',
    'root',
    'Run the worker as root, on a host of its own. Each machine runs as a user of its own.',
  )

async function hardware(root: string): Promise<HostFinding> {
  const { why, fix } = await findHardwareVirtualisation(root)
  return need('hardware', why, 'virtualisation by the processor, and /dev/kvm opens', fix ?? '')
}

/** Where cgroup v2 is mounted. Throws if it is not. */
export async function cgroupMountOf(root = '/'): Promise<string> {
  const mounts = await readFile(join(root, 'proc/self/mounts'), 'latin1')
  const mount = /^\S+ (\S+) cgroup2 /m.exec(mounts)?.[1]
  if (mount === undefined) throw new Error('cgroup v2 is not mounted.')
  return mount
}

async function cgroups(root: string, isDouble: boolean): Promise<HostFinding> {
  const fix =
    'Boot with systemd.unified_cgroup_hierarchy=1 (cgroup v2 alone; v1 also makes restores slow), ' +
    'and let cpu, memory and pids be used at the root.'
  try {
    const mount = await cgroupMountOf(root)
    const has = (await textOf(join(root, mount, 'cgroup.controllers'))).trim().split(' ')
    const lacks = isDouble ? [] : CONTROLLERS.filter((name) => !has.includes(name))
    const problem = lacks.length === 0 ? null : `cgroup v2 (${mount}) lacks ${lacks.join(', ')}.`
    return need('cgroup', problem, `cgroup v2 at ${mount}`, fix)
  } catch (error) {
    return need('cgroup', error instanceof Error ? error.message : String(error), '', fix)
  }
}

async function chrootBase(settings: FirecrackerSettings, root: string): Promise<HostFinding> {
  const { chrootBase: base } = settings
  const fix =
    `Make a folder with a path of at most ${CHROOT_BASE_BYTES} bytes on the file system of the images, ` +
    `without noexec and nodev: mkdir -m 755 ${base}`
  const result = (problem: string | null): HostFinding =>
    need('chroot base', problem, `${base}, root’s alone`, fix)
  if (Buffer.byteLength(base) > CHROOT_BASE_BYTES)
    return result(`${base} is longer than ${CHROOT_BASE_BYTES} bytes, so sockets in jails would not fit.`)
  const problem = await writableByOthers(base)
  if (problem !== null) return result(problem)
  const options = mountOptionsOf(await realpath(base), await textOf(join(root, 'proc/self/mounts')))
  const bad = ['noexec', 'nodev'].filter((option) => options.includes(option))
  return result(
    bad.length === 0 ? null : `${base} is mounted ${bad.join(', ')}, so nothing runs in a jail there.`,
  )
}

function mountOptionsOf(path: string, mounts: string): string[] {
  let best = { point: '', options: '' }
  for (const line of mounts.split('\n')) {
    const [, point = '', , options = ''] = line.split(' ')
    const isAbove = path === point || path.startsWith(point === '/' ? '/' : `${point}/`)
    if (isAbove && point.length >= best.point.length) best = { point, options }
  }
  return best.options.split(',')
}

async function users({ uids }: FirecrackerSettings, root: string): Promise<HostFinding> {
  const last = uids.first + uids.count - 1
  const taken = (await textOf(join(root, 'etc/passwd'))).split('\n').find((line) => {
    const uid = Number(line.split(':')[2])
    return uid >= uids.first && uid <= last
  })
  return need(
    'users',
    taken === undefined ? null : `The user ${taken.split(':')[0]} is within the users of machines.`,
    `${uids.first} to ${last}, no one else’s`,
    'Set first_uid to a range that no account and no other service has.',
  )
}
