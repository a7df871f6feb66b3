/**
 * Rung 2: no helper binary and no root. A Python bootstrap fences itself in (namespaces and a file tree of its own where the host gives
 * them, else Landlock; seccomp in both) and becomes the agent; see jail.py.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdir, mkdtemp, rm, chown } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { DEFAULT_LIMITS } from '@cofferdam/contract'
import { agentArgv, createGuestSession } from '@cofferdam/guest'
import { z } from 'zod'
import type { Filters, HostParts } from '../host-jail/prepare-host.ts'
import { MARK } from '../host-jail/process-identity.ts'
import type { Launch, Launched, Rung } from '../host-jail/rung.ts'
import type { SlotSpec } from '../warm/index.ts'
import { GUEST, jailTree, NODE, OWN_DISKS, PATH, SHM_BYTES, type JailTree } from './jail-tree.ts'
import { withoutCgroup } from './resource-limits.ts'

const MiB = 1024 * 1024

export interface SelfJailParts extends HostParts {
  filters: Filters
  /** Folder below which a trial may make its own. */
  root: string
}

const lineSchema = z.union([
  z.strictObject({ pid: z.int().positive() }),
  z.strictObject({ proc: z.boolean() }),
])
/** What jail.py tells on fd 3: the agent's pid for us, and whether its file tree has a /proc. */
type Report = { pid: number; proc: boolean }

/** What interpreters and the loader read where there is no file tree of our own. Node fails without openssl.cnf (local-isolation.md §5). */
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

const NAMESPACE_FEATURES = [
  'self-jail: user, mount, pid, network, ipc, uts and cgroup namespaces of its own; no network interface but loopback, where the worker’s proxy answers',
  'file tree of its own: system folders read-only; writable are only /tmp (disk limit, 16,384 files) and /dev/shm (16 MiB)',
  'seccomp filter, no capability, no new privileges; Landlock not needed beside a file tree of its own',
]
const BARE_FEATURES = [
  'self-jail without namespaces: Landlock ABI 6 or newer keeps files, signals and abstract sockets in; names and dates of the host’s files show',
  'seccomp filter: no sockets; chmod, chown, utime, System V IPC and inotify refused; no capability, no new privileges',
  '/proc and /dev/shm closed',
]

/** The rung, or why it cannot be. Starts an agent once, with a waiting Python, as it will be for programs. */
export async function createSelfJailRung(
  parts: SelfJailParts,
  tryNamespaces: boolean,
  signal: AbortSignal,
): Promise<Rung | { missing: string }> {
  const tree = jailTree(parts)
  const trial = tryNamespaces ? await tryOnce(parts, tree, signal) : 'namespaces: false in the configuration'
  if (typeof trial !== 'string')
    return {
      isolation: 'jail',
      network: ['none', 'public', 'allow'],
      ownsPids: true,
      usesFolder: true,
      ownDisks: OWN_DISKS,
      showsProc: trial.proc,
      enforces: ['disk'],
      features: [
        ...NAMESPACE_FEATURES,
        trial.proc === true
          ? '/proc of its own, without command line, version, devices, modules and interrupts of the host; no /sys'
          : 'no /proc: this host (a container’s masked /proc?) lets no other be mounted',
      ],
      start: (launch) => start(parts, tree, launch).launched,
    }
  const bare = await tryOnce(parts, null, signal)
  if (typeof bare === 'string') return { missing: `with namespaces: ${trial}; without: ${bare}` }
  return {
    isolation: 'jail',
    network: ['none'],
    ownsPids: false,
    usesFolder: true,
    ownDisks: [],
    showsProc: false,
    enforces: [],
    features: [
      ...BARE_FEATURES,
      'disk and number of files are watched every 250 ms, not limited; a single file is (RLIMIT_FSIZE)',
      `no namespaces: ${trial}`,
    ],
    start: (launch) => start(parts, null, launch).launched,
  }
}

/** `tree`: the file tree with namespaces; null without. */
function start(
  parts: SelfJailParts,
  tree: JailTree | null,
  launch: Launch,
): { launched: Launched; report: Promise<Report> } {
  const { python } = parts
  const child = spawn(
    python.executable,
    [
      '-I',
      '-S',
      parts.bootstrap,
      ...Object.entries(settingsOf(parts, tree, launch)).flat(),
      '--',
      // The interpreter and the agent's file are jail.py's own matter.
      ...agentArguments(parts, tree, launch).slice(4),
    ],
    {
      stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
      env: { [MARK]: launch.spec.slotId },
      cwd: '/',
      ...launch.user,
    },
  )
  const info = child.stdio[3] as Readable
  const report = reportOf(child, info, tree !== null)
  // The trial does not look at it; a host that cannot run the jail must not end the worker by an unhandled rejection.
  for (const promise of [report.pid, report.whole]) promise.catch(() => {})
  return { launched: { child, agentPid: report.pid }, report: report.whole }
}

function settingsOf(
  parts: SelfJailParts,
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
    shm: String(SHM_BYTES),
  }
}

function agentArguments(
  { python, node, guestDir }: SelfJailParts,
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
    // Where the disk is no tmpfs, at least no single file passes the limit.
    rlimits: { fsize: spec.limits.disk_mib * MiB, ...limits },
  })
}

/** The pid is known before the jail stands; the two lines of a jail with a tree come in either order. */
function reportOf(
  child: ChildProcess,
  info: Readable,
  hasTree: boolean,
): { pid: Promise<number>; whole: Promise<Report> } {
  const [pid, proc] = [Promise.withResolvers<number>(), Promise.withResolvers<boolean>()]
  if (!hasTree) proc.resolve(true)
  const failed = (error: Error): void => {
    pid.reject(error)
    proc.reject(error)
  }
  // Two short lines, and the descriptor is closed before anything of a program runs.
  const read = createInterface({ input: info })
  read.on('line', (line) => {
    const parsed = lineSchema.safeParse(parsedJson(line))
    if (!parsed.success) failed(new Error('the jail reported nonsense'))
    else if ('pid' in parsed.data) pid.resolve(parsed.data.pid)
    else proc.resolve(parsed.data.proc)
  })
  read.on('close', () => failed(new Error('the jail ended before it stood')))
  info.on('error', failed)
  child.on('error', failed)
  const whole = Promise.all([pid.promise, proc.promise]).then(([agent, has]) => ({ pid: agent, proc: has }))
  return { pid: pid.promise, whole }
}

function parsedJson(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}

async function tryOnce(
  parts: SelfJailParts,
  tree: JailTree | null,
  signal: AbortSignal,
): Promise<Report | string> {
  const folder = await mkdtemp(join(parts.root, 'trial-'))
  const user = parts.dropTo
  await mkdir(join(folder, 'tmp'))
  if (user !== null) for (const path of [folder, join(folder, 'tmp')]) await chown(path, user.uid, user.gid)
  const { launched, report } = start(parts, tree, { folder, hasCgroup: false, user, spec: TRIAL })
  const { child } = launched
  let said = ''
  child.stderr?.on('data', (chunk: Buffer) => (said = (said + chunk.toString('utf8')).slice(-4096)))
  const exited = new Promise<void>((resolve) => child.once('close', () => resolve()))
  if (child.stdin === null || child.stdout === null) return 'no channel'
  const session = createGuestSession({ readable: child.stdout, writable: child.stdin })
  try {
    session.release()
    await session.ready(AbortSignal.any([signal, AbortSignal.timeout(20_000)]))
    return await report
  } catch (error) {
    signal.throwIfAborted()
    return said.split('\n')[0] || String(error)
  } finally {
    session.close()
    child.kill('SIGKILL')
    await exited
    await rm(folder, { recursive: true, force: true })
  }
}

const TRIAL: SlotSpec = {
  slotId: 'sbx_trial',
  owner: 'wrk_trial',
  language: 'python',
  preload: [],
  limits: DEFAULT_LIMITS,
  cell: false,
}
