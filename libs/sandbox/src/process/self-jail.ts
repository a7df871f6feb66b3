/**
 * The self-jail: needs no helper binary and no root. A Python script (jail.py) isolates itself, with
 * namespaces and its own file tree if the host allows, else with Landlock, and always with seccomp. Then it
 * becomes the agent.
 */
import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm, chown } from 'node:fs/promises'
import { join } from 'node:path'
import { DEFAULT_LIMITS } from '@cofferdam/contract'
import { createGuestSession } from '../guest/index.ts'
import { MARK } from '../host-jail/process-identity.ts'
import type { Launch, Launched, Rung } from '../host-jail/rung.ts'
import type { SlotSpec } from '../warm/index.ts'
import { readReport, type JailReport } from './jail-report.ts'
import { jailTree, OWN_DISKS, type JailTree } from './jail-tree.ts'
import { selfJailArgv, type JailParts } from './self-jail-argv.ts'

export interface SelfJailParts extends JailParts {
  /** Folder in which tryOnce makes a temporary folder. */
  root: string
}

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

/**
 * The rung, or why it is unavailable. To find out, starts an agent as for a Python program: first with
 * namespaces, unless tryNamespaces is false, then without.
 */
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
): { launched: Launched; report: Promise<JailReport> } {
  const child = spawn(parts.python.executable, selfJailArgv(parts, tree, launch), {
    stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
    env: { [MARK]: launch.spec.slotId },
    cwd: '/',
    ...launch.user,
  })
  const report = readReport(child, tree !== null)
  // Each caller uses only one of these. An unhandled rejection of the other one must not end the worker.
  for (const promise of [report.pid, report.whole]) promise.catch(() => {})
  return { launched: { child, agentPid: report.pid }, report: report.whole }
}

async function tryOnce(
  parts: SelfJailParts,
  tree: JailTree | null,
  signal: AbortSignal,
): Promise<JailReport | string> {
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
