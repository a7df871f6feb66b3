/**
 * Rung 1: bubblewrap. Namespaces of every kind, a file tree of read-only system folders and small tmpfs, no capability, a
 * seccomp filter, and the agent as PID 1, so that its death is the death of everything inside.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { lstat, readlink, stat } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { agentArgv, languageOf } from '@cofferdam/guest'
import type { Python } from '../host-jail/interpreters.ts'
import { MARK } from '../host-jail/process-identity.ts'
import type { DropTo, Launch, Launched, Rung } from '../host-jail/rung.ts'

/** Names inside, the same on every host, so that no machine path shows in a traceback. */
const GUEST = '/opt/cofferdam'
const NODE = '/opt/node/bin/node'
const PATH = '/opt/node/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin'
/** multiprocessing's locks need it; a program's files belong to /tmp. Docker's default is 64 MiB. */
const SHM_BYTES = 16 * 1024 * 1024
const MiB = 1024 * 1024

export interface BwrapParts {
  bwrap: string
  python: Python
  node: string
  /** Folder on the host with the guest files. */
  guestDir: string
  /** Folder with passwd, group, hosts, nsswitch.conf of the sandbox. */
  etcDir: string
  /** File with the seccomp filter. */
  filter: string
  dropTo: DropTo | null
}

/** Files of /etc that start-up of Python, Node or the loader looks at; nothing in them is secret. */
const ETC = [
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'alternatives',
  'localtime',
  'mime.types',
  'ssl/openssl.cnf',
  'ssl/certs',
]

const sized = (folder: string, bytes: number): string[] => [
  '--perms',
  '1777',
  '--size',
  String(bytes),
  '--tmpfs',
  folder,
]

/** After the mounts: the root becomes read-only, the child's pid is told on fd 3, the filter is read from fd 4. */
const START = ['--remount-ro', '/', '--info-fd', '3', '--seccomp', '4', '--chdir', '/tmp', '--']

/** Arguments that do not change from sandbox to sandbox. */
async function fixedArguments(parts: BwrapParts): Promise<string[]> {
  const { python } = parts
  const args = ['--unshare-all', '--die-with-parent', '--new-session', '--as-pid-1', '--cap-drop', 'ALL']
  args.push(
    '--clearenv',
    '--hostname',
    'sandbox',
    '--uid',
    '65534',
    '--gid',
    '65534',
    '--ro-bind',
    '/usr',
    '/usr',
  )
  for (const folder of ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']) {
    const found = await lstat(folder).catch(() => null)
    if (found?.isSymbolicLink() === true) args.push('--symlink', await readlink(folder), folder)
    else if (found !== null) args.push('--ro-bind', folder, folder)
  }
  const debian = `python${python.version.split('.').slice(0, 2).join('.')}`
  for (const name of [...ETC, debian]) args.push('--ro-bind-try', `/etc/${name}`, `/etc/${name}`)
  for (const name of ['passwd', 'group', 'hosts', 'nsswitch.conf'])
    args.push('--ro-bind', `${parts.etcDir}/${name}`, `/etc/${name}`)
  for (const folder of python.folders) args.push('--ro-bind', folder, folder)
  args.push('--ro-bind', parts.node, NODE, '--ro-bind', parts.guestDir, GUEST)
  args.push('--proc', '/proc', '--dev', '/dev', ...sized('/dev/shm', SHM_BYTES))
  // /dev and / are tmpfs of their own without a size: read-only, or they would be a way around the disk limit.
  args.push('--remount-ro', '/dev')
  return args
}

/** The rung, or why it cannot be: `bwrap` is really run once, as it will be for programs. */
export async function createBwrapRung(
  parts: BwrapParts,
  signal: AbortSignal,
): Promise<Rung | { missing: string }> {
  const fixed = await fixedArguments(parts)
  const said = await tryOnce(parts, fixed, signal)
  if (said !== null) return { missing: said }
  return {
    isolation: 'jail',
    network: ['none'],
    ownsPids: true,
    usesFolder: false,
    enforces: ['disk'],
    features: [
      'bwrap: own user, mount, pid, network, ipc, uts and cgroup namespaces; no network interface but loopback',
      'read-only system folders; writable are only /tmp (disk limit) and /dev/shm (16 MiB)',
      'no capabilities, no new privileges, seccomp filter',
      ...(parts.dropTo === null ? [] : [`started as uid ${parts.dropTo.uid}, not as root`]),
    ],
    start: (launch) => start(parts, fixed, launch),
  }
}

function start(parts: BwrapParts, fixed: readonly string[], launch: Launch): Launched {
  const { spec, hasCgroup } = launch
  const filter = openSync(parts.filter, 'r')
  try {
    const args = [
      ...fixed,
      ...sized('/tmp', spec.limits.disk_mib * MiB),
      ...START,
      ...agentArgv({
        python: parts.python.executable,
        node: NODE,
        guestDir: GUEST,
        language: languageOf(spec.program),
        ownDisk: true,
        hold: true,
        cell: spec.reuse !== 'job',
        env: { PATH },
        rlimits: hasCgroup ? {} : withoutCgroup(spec.limits),
      }),
    ]
    const child = spawn(parts.bwrap, args, {
      stdio: ['pipe', 'pipe', 'pipe', 'pipe', filter],
      env: { [MARK]: spec.sandboxId },
      cwd: '/',
      ...parts.dropTo,
    })
    return { child, agentPid: agentPidOf(child) }
  } finally {
    closeSync(filter)
  }
}

/**
 * Per process or per user, so weaker than a cgroup. `data` counts writable private memory: a net below the memory watch, wide
 * enough for what allocators reserve. RLIMIT_AS would break Node (local-isolation.md §8).
 */
export function withoutCgroup(limits: { memory_mib: number; pids: number }): Record<string, number> {
  return { nproc: limits.pids + 1, data: (2 * limits.memory_mib + 256) * MiB }
}

/** bwrap writes `{ "child-pid": n, … }` once the child exists. */
function agentPidOf(child: ChildProcess): Promise<number> {
  const info = child.stdio[3] as Readable
  return new Promise((resolve, reject) => {
    let text = ''
    info.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      const pid = /"child-pid":\s*(\d+)/.exec(text)?.[1]
      if (pid !== undefined) resolve(Number(pid))
    })
    info.on('close', () => reject(new Error('bwrap ended before the sandbox stood')))
    info.on('error', reject)
    child.on('error', reject)
  })
}

/** Runs the interpreters inside once; null when all went well, else the first line of what was said. */
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
