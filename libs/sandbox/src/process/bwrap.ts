/**
 * Rung 1: bubblewrap. All kinds of namespaces, a file tree of read-only system folders and small tmpfs, no
 * capability, a seccomp filter, and the agent as PID 1, whose death ends everything inside.
 */
import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { SURROUNDINGS } from '@cofferdam/contract'
import { agentArgv, sharedStart, type AgentOptions } from '../guest/index.ts'
import type { Filters, HostParts } from '../host-jail/prepare-host.ts'
import { MARK } from '../host-jail/process-identity.ts'
import { withoutCgroup } from '../host-jail/resource-limits.ts'
import type { Launch, Launched, Rung } from '../host-jail/rung.ts'
import { createStarter, type Starter } from '../host-jail/starter.ts'
import { GUEST, jailTree, NODE, OWN_DISKS, PATH, type JailTree } from './jail-tree.ts'

const MiB = 1024 * 1024
const WORK = SURROUNDINGS.workFolder

export interface BwrapParts extends HostParts {
  bwrap: string
  filters: Filters
}

const sized = (folder: string, bytes: number): string[] => [
  '--perms',
  '1777',
  '--size',
  String(bytes),
  '--tmpfs',
  folder,
]

/** After the mounts: read-only root, the child's pid on fd 3, the filter from fd 4. */
const START = ['--remount-ro', '/', '--info-fd', '3', '--seccomp', '4']

/** Arguments that do not change from sandbox to sandbox. */
function fixedArguments(tree: JailTree): string[] {
  const args = ['--unshare-all', '--die-with-parent', '--new-session', '--as-pid-1', '--cap-drop', 'ALL']
  args.push('--clearenv', '--hostname', SURROUNDINGS.hostName, '--uid', '65534', '--gid', '65534')
  for (const [target, path] of tree.links) args.push('--symlink', target, path)
  for (const [source, path] of tree.binds) args.push('--ro-bind', source, path)
  // Read-only, because a program could change sysctls of its IPC and pid namespaces. In a cell, the change
  // would last beyond its execution.
  args.push('--proc', '/proc', '--ro-bind', '/proc/sys', '/proc/sys')
  for (const path of tree.maskedFiles) args.push('--ro-bind', tree.empty, path)
  for (const path of tree.maskedFolders) args.push('--tmpfs', path, '--remount-ro', path)
  args.push('--dev', '/dev', ...sized('/dev/shm', SURROUNDINGS.shmBytes))
  // /dev and / are tmpfs without a size, so writable ones would bypass the disk limit.
  args.push('--remount-ro', '/dev')
  return args
}

/** The rung, or why it is unavailable. To find out, runs `bwrap` once as for a program. */
export async function createBwrapRung(
  parts: BwrapParts,
  signal: AbortSignal,
): Promise<Rung | { missing: string }> {
  const tree = jailTree(parts)
  const fixed = fixedArguments(tree)
  const said = await tryOnce(parts, fixed, signal)
  if (said !== null) return { missing: said }
  const starter = createStarter(parts.python.executable, neededOf(tree, parts))
  return {
    isolation: 'jail',
    network: ['none', 'public', 'allow'],
    ownsPids: true,
    usesFolder: false,
    ownDisks: OWN_DISKS,
    showsProc: true,
    enforces: ['disk'],
    features: [
      'bwrap: user, mount, pid, network, ipc, uts and cgroup namespaces of its own; no network interface but loopback, where the worker’s proxy answers',
      'file tree: system folders read-only; writable are only /tmp (disk limit) and /dev/shm (16 MiB); the number of files counts as memory',
      'seccomp filter, no capability, no new privileges; Landlock not needed beside a file tree of its own',
      '/proc of its own, without command line, version, devices, modules and interrupts of the host; no /sys',
    ],
    start: (launch) => start(parts, fixed, starter, launch),
    close: () => starter.close(),
  }
}

/** What bwrap opens on the host: itself, its binds, the filters, and every jail's own files. */
function neededOf({ binds, empty }: JailTree, { bwrap, python, filters }: BwrapParts): string[] {
  const { limited, watched } = filters.jail
  const sources = binds.map(([source]) => source)
  return ['/proc', '/dev', bwrap, python.executable, empty, limited, watched, ...sources]
}

async function start(
  parts: BwrapParts,
  fixed: readonly string[],
  starter: Starter,
  launch: Launch,
): Promise<Launched> {
  const { spec, hasCgroup, user } = launch
  const agent: AgentOptions = {
    python: parts.python.executable,
    node: NODE,
    guestDir: GUEST,
    language: spec.language,
    preload: spec.preload,
    cell: spec.cell,
    ownDisk: true,
    hold: true,
    env: { PATH },
    rlimits: hasCgroup ? {} : withoutCgroup(spec.limits),
  }
  const shared = sharedStart(agent)
  const variables = Object.entries(shared?.env ?? {}).flatMap(([name, value]) => ['--setenv', name, value])
  const args = [
    ...fixed,
    ...sized('/tmp', spec.limits.disk_mib * MiB),
    ...START,
    ...variables,
    ...(shared === null ? ['--chdir', '/tmp'] : ['--perms', '0755', '--dir', WORK, '--chdir', WORK]),
    '--',
    ...(shared?.argv ?? agentArgv(agent)),
  ]
  const { child, info } = await starter.start({
    argv: [parts.bwrap, ...args],
    env: { [MARK]: spec.slotId },
    user,
    filter: hasCgroup ? parts.filters.jail.limited : parts.filters.jail.watched,
  })
  return { child, agentPid: agentPidOf(info), options: shared?.options ?? [] }
}

/** bwrap writes `{ "child-pid": n, … }` once the child exists. */
function agentPidOf(info: Readable): Promise<number> {
  return new Promise((resolve, reject) => {
    let text = ''
    info.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      const pid = /"child-pid":\s*(\d+)/.exec(text)?.[1]
      if (pid !== undefined) resolve(Number(pid))
    })
    info.on('end', () => reject(new Error('bwrap ended before the sandbox stood')))
    info.on('error', reject)
  })
}

/** Runs the interpreters inside once; null if all went well, else the first line of output. */
async function tryOnce(
  parts: BwrapParts,
  fixed: readonly string[],
  signal: AbortSignal,
): Promise<string | null> {
  if ((await stat(parts.node).catch(() => null)) === null) return `${parts.node} is not there`
  const command = `${parts.python.executable} -I -S -c "" && ${NODE} --version && bash -c :`
  const args = [
    ...fixed,
    '--tmpfs',
    '/tmp',
    '--remount-ro',
    '/',
    '--setenv',
    'PATH',
    PATH,
    '--',
    '/bin/sh',
    '-c',
    command,
  ]
  return new Promise((resolve, reject) => {
    execFile(
      parts.bwrap,
      args,
      { signal, env: {}, cwd: '/', timeout: 20_000, ...parts.dropTo },
      (error, _out, said) => {
        if (signal.aborted) reject(signal.reason as Error)
        else if (error === null) resolve(null)
        else resolve(said.split('\n')[0] || error.message)
      },
    )
  })
}
