/** The command line of jail.py: how it isolates itself, and the agent that it becomes. */
import { SURROUNDINGS } from '@cofferdam/contract'
import { agentArgv } from '../guest/index.ts'
import { inodesOf } from '../disk-inodes.ts'
import type { Filters, HostParts } from '../host-jail/prepare-host.ts'
import { withoutCgroup } from '../host-jail/resource-limits.ts'
import type { Launch } from '../host-jail/rung.ts'
import { GUEST, NODE, PATH, type JailTree } from './jail-tree.ts'

const MiB = 1024 * 1024

/** A host whose architecture the seccomp filters support. */
export interface JailParts extends HostParts {
  filters: Filters
}

/**
 * Host files and folders that interpreters and the loader need in a jail without its own file tree. Node
 * fails without openssl.cnf.
 */
const READ = [
  '/usr',
  '/bin',
  '/sbin',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/etc/ld.so.cache',
  '/etc/alternatives',
  '/etc/localtime',
  '/etc/ssl/openssl.cnf',
]

/** Arguments for Python. `tree`: the file tree with namespaces; null without. */
export function selfJailArgv(parts: JailParts, tree: JailTree | null, launch: Launch): string[] {
  return [
    '-I',
    '-S',
    parts.bootstrap,
    ...Object.entries(settingsOf(parts, tree, launch)).flat(),
    '--',
    // Leaves out the interpreter, its flags and the agent's file: jail.py already runs in that interpreter
    // and imports the agent.
    ...agentArguments(parts, tree, launch).slice(4),
  ]
}

function settingsOf(
  parts: JailParts,
  tree: JailTree | null,
  { spec, folder, hasCgroup }: Launch,
): Record<string, string> {
  const filters = tree === null ? parts.filters.bare : parts.filters.jail
  const filter = hasCgroup ? filters.limited : filters.watched
  const { python, guestDir, node } = parts
  if (tree === null)
    return {
      guest: guestDir,
      folder,
      filter,
      read: [...READ, ...python.folders, guestDir, node].join('\n'),
    }
  const pairs = (list: readonly (readonly [string, string])[]): string =>
    list.map((pair) => pair.join(' ')).join('\n')
  return {
    guest: GUEST,
    folder,
    filter,
    links: pairs(tree.links),
    binds: pairs(tree.binds),
    masks: [...tree.maskedFiles, ...tree.maskedFolders].join('\n'),
    empty: tree.empty,
    disk: String(spec.limits.disk_mib * MiB),
    inodes: String(inodesOf(spec.limits.disk_mib)),
    shm: String(SURROUNDINGS.shmBytes),
  }
}

function agentArguments(
  { python, node, guestDir }: JailParts,
  tree: JailTree | null,
  { spec, folder, hasCgroup }: Launch,
): string[] {
  const shared = {
    python: python.executable,
    language: spec.language,
    preload: spec.preload,
    cell: spec.cell,
    hold: true,
  }
  const limits = hasCgroup ? {} : withoutCgroup(spec.limits)
  if (tree !== null)
    return agentArgv({
      ...shared,
      node: NODE,
      guestDir: GUEST,
      ownDisk: true,
      env: { PATH },
      rlimits: limits,
    })
  return agentArgv({
    ...shared,
    node,
    guestDir,
    work: `${folder}/work`,
    confined: true,
    scope: true,
    env: { HOME: `${folder}/tmp`, TMPDIR: `${folder}/tmp` },
    // If the disk is no tmpfs, at least no single file exceeds the limit.
    rlimits: { fsize: spec.limits.disk_mib * MiB, ...limits },
  })
}
