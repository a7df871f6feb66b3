/**
 * What would make Firecracker on this host safer or faster, by docs/prod-host-setup.md of Firecracker.
 * Machines run without it.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

export interface HostFinding {
  name: string
  ok: boolean
  /** What is there, or what is missing. */
  found: string
  fix: string
  /** False for advice: machines run without it, less safely or slower. */
  needed: boolean
}

/** The findings of a host whose /proc and /sys are below `root`. */
export const adviseHost = (root: string): Promise<HostFinding[]> =>
  Promise.all([smt(root), swap(root), ksm(root), mitigations(root), slowCreation(root), clock(root)])

const advise = (name: string, ok: boolean, found: string, fix: string): HostFinding => ({
  name,
  ok,
  found,
  fix,
  needed: false,
})

async function smt(root: string): Promise<HostFinding> {
  const active = (await textOf(join(root, 'sys/devices/system/cpu/smt/active'))).trim()
  const fix = 'Boot with nosmt, or give each tenant cores of its own: threads of one core leak to each other.'
  return advise('SMT', active !== '1', active === '1' ? 'on' : 'off', fix)
}

async function swap(root: string): Promise<HostFinding> {
  const used = (await textOf(join(root, 'proc/swaps'))).trim().split('\n').length > 1
  return advise('swap', !used, used ? 'on' : 'off', 'swapoff -a: memory of guests must not reach a disk.')
}

async function ksm(root: string): Promise<HostFinding> {
  const on = (await textOf(join(root, 'sys/kernel/mm/ksm/run'))).trim() === '1'
  const fix = 'echo 0 > /sys/kernel/mm/ksm/run: shared pages tell one guest what another has.'
  return advise('KSM', !on, on ? 'on' : 'off', fix)
}

async function mitigations(root: string): Promise<HostFinding> {
  const folder = join(root, 'sys/devices/system/cpu/vulnerabilities')
  const open: string[] = []
  for (const name of await readdir(folder).catch(() => []))
    if ((await textOf(join(folder, name))).startsWith('Vulnerable')) open.push(name)
  const found = open.length === 0 ? 'the kernel knows of no open one' : `vulnerable: ${open.join(', ')}`
  return advise(
    'processor',
    open.length === 0,
    found,
    'Load current microcode early, and keep mitigations on.',
  )
}

/** Since Linux 6.1 creating a machine waits for cgroups unless `favordynmods` or `nx_huge_pages` is set. */
async function slowCreation(root: string): Promise<HostFinding> {
  const [major = 0, minor = 0] = releaseOf(await textOf(join(root, 'proc/sys/kernel/osrelease')))
  const mounts = await textOf(join(root, 'proc/self/mounts'))
  const pages = (await textOf(join(root, 'sys/module/kvm/parameters/nx_huge_pages'))).trim()
  const isNew = major > 6 || (major === 6 && minor >= 1)
  const isSet = /cgroup2 \S*favordynmods/.test(mounts) || ['N', 'never'].includes(pages)
  const fix =
    'Mount cgroup v2 with favordynmods (mount -o remount,favordynmods /sys/fs/cgroup), or boot with ' +
    'kvm.nx_huge_pages=never where the processor has no iTLB multihit.'
  return advise('start of machines', !isNew || isSet, isNew && !isSet ? 'slow on this kernel' : 'fast', fix)
}

async function clock(root: string): Promise<HostFinding> {
  const release = (await textOf(join(root, 'proc/sys/kernel/osrelease'))).trim()
  const [major = 0, minor = 0] = releaseOf(release)
  const isNew = major > 5 || (major === 5 && minor >= 16)
  return advise(
    'host kernel',
    isNew,
    release,
    'Use Linux 5.16 or newer: older ones cannot set a clone’s clock.',
  )
}

const releaseOf = (release: string): number[] => (release.match(/\d+/g) ?? []).map(Number)

/** The text of a file of the kernel. Empty if it cannot be read. */
export const textOf = (path: string): Promise<string> => readFile(path, 'latin1').catch(() => '')
