/**
 * The file tree of a jail with a mount namespace, the same for bubblewrap and the self-jail: system folders
 * read-only, a small /etc, our guest files and Node under names that are the same on every host, and a /proc
 * that says little about the host.
 */
import { lstatSync, readlinkSync } from 'node:fs'
import { SURROUNDINGS } from '@cofferdam/contract'
import type { HostParts } from '../host-jail/prepare-host.ts'

/** Paths inside, so that no host path shows in a traceback. */
export const GUEST = '/opt/cofferdam'
export const NODE = '/opt/node/bin/node'
export const PATH = '/opt/node/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin'
/** File systems that a program can fill. */
export const OWN_DISKS = ['/tmp', '/dev/shm'] as const

export interface JailTree {
  /** Symbolic links: target, path. */
  links: readonly (readonly [string, string])[]
  /** Read-only binds: source on the host, path inside. */
  binds: readonly (readonly [string, string])[]
  /** Files and folders of /proc that read empty. */
  maskedFiles: readonly string[]
  maskedFolders: readonly string[]
  /** An empty file to lay over them. */
  empty: string
}

/**
 * Docker's masks, and files that identify the host: its command line, build, devices, modules and load.
 * cpuinfo, meminfo, stat, loadavg and uptime stay, because runtimes size themselves by them.
 */
const MASKED_FILES = [
  'cmdline',
  'config.gz',
  'diskstats',
  'interrupts',
  'kallsyms',
  'kcore',
  'key-users',
  'keys',
  'latency_stats',
  'mdstat',
  'modules',
  'partitions',
  'sched_debug',
  'schedstat',
  'softirqs',
  'swaps',
  'sysrq-trigger',
  'timer_list',
  'timer_stats',
  'version',
  'version_signature',
]
const MASKED_FOLDERS = ['acpi', 'asound', 'bus', 'driver', 'fs', 'irq', 'pressure', 'scsi']

/** The tree on this host: binds and masks only what exists. */
export function jailTree(parts: HostParts): JailTree {
  const links = Object.entries(SURROUNDINGS.links).map(([path, target]): [string, string] => [target, path])
  const binds: [string, string][] = [['/usr', '/usr']]
  for (const folder of ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']) {
    const found = lstatSync(folder, { throwIfNoEntry: false })
    if (found?.isSymbolicLink() === true) links.push([readlinkSync(folder), folder])
    else if (found !== undefined) binds.push([folder, folder])
  }
  for (const folder of parts.python.folders) binds.push([folder, folder])
  binds.push([parts.etcDir, '/etc'], [parts.node, NODE], [parts.guestDir, GUEST])
  const present = (names: readonly string[]): string[] =>
    names.map((name) => `/proc/${name}`).filter((path) => lstatSync(path, { throwIfNoEntry: false }))
  return {
    links,
    binds,
    maskedFiles: present(MASKED_FILES),
    maskedFolders: present(MASKED_FOLDERS),
    empty: parts.emptyFile,
  }
}
