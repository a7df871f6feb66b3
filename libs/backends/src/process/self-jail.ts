/**
 * Rung 2: no helper binary and no root. A Python bootstrap fences itself in (namespaces where the host gives them, Landlock,
 * seccomp) and becomes the agent; see jail.py.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import type { Readable } from 'node:stream'
import { DEFAULT_LIMITS, type SandboxSpec } from '@cofferdam/contract'
import { agentArgv, createGuestSession, languageOf } from '@cofferdam/guest'
import { z } from 'zod'
import type { Python } from '../host-jail/interpreters.ts'
import type { DropTo, Launch, Launched, Rung } from '../host-jail/rung.ts'
import { withoutCgroup } from './bwrap.ts'

const MiB = 1024 * 1024

export interface SelfJailParts {
  python: Python
  node: string
  guestDir: string
  /** jail.py where the dropped user can read it. */
  bootstrap: string
  filter: string
  /** The filter where the host gives no namespaces. */
  bareFilter: string
  /** An empty folder for the trial start, which its user may write to. */
  trialFolder: string
  dropTo: DropTo | null
  /** Try them; without, Landlock and seccomp stand alone. */
  namespaces: boolean
}

const reportSchema = z.object({ pid: z.int(), namespaces: z.boolean() })
type Report = z.infer<typeof reportSchema>

/** What interpreters and the loader read. Node fails without openssl.cnf (local-isolation.md §5). */
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

/** The rung, or why it cannot be. Starts an agent once, with a waiting Python, as it will be for programs. */
export async function createSelfJailRung(
  parts: SelfJailParts,
  signal: AbortSignal,
): Promise<Rung | { missing: string }> {
  const trial = await tryOnce(parts, signal)
  if (typeof trial === 'string') return { missing: trial }
  return {
    isolation: 'jail',
    network: ['none'],
    ownsPids: trial.namespaces,
    usesFolder: true,
    enforces: trial.namespaces ? ['disk'] : [],
    features: [
      'self-jail: Landlock file rules (system folders read-only, own folder writable) and a seccomp filter without sockets',
      trial.namespaces
        ? 'own user, mount, pid, network, ipc and uts namespaces; own /proc; host files read-only; tmpfs with the disk limit'
        : 'no namespaces on this host: signals and abstract sockets are kept in by Landlock scopes, /proc is closed, chmod, chown, utime, System V IPC and inotify are refused, disk is limited per file only',
    ],
    start: (launch) => start(parts, launch).launched,
  }
}

function start(parts: SelfJailParts, launch: Launch): { launched: Launched; report: Promise<Report> } {
  const { spec, folder } = launch
  const { python } = parts
  const settings = {
    folder,
    read: [...READ, ...python.folders, parts.guestDir, parts.node],
    filter: parts.filter,
    bareFilter: parts.bareFilter,
    namespaces: parts.namespaces,
    disk: spec.limits.disk_mib * MiB,
  }
  const [, , , , ...agentOptions] = agentArgv({
    python: python.executable,
    node: parts.node,
    guestDir: parts.guestDir,
    language: languageOf(spec.program),
    work: `${folder}/work`,
    hold: true,
    cell: spec.reuse !== 'job',
    env: { HOME: `${folder}/tmp`, TMPDIR: `${folder}/tmp` },
    rlimits: {
      // Where the disk is no tmpfs, at least no single file passes the limit.
      fsize: spec.limits.disk_mib * MiB,
      ...(launch.hasCgroup ? {} : withoutCgroup(spec.limits)),
    },
  })
  const child = spawn(
    python.executable,
    ['-I', '-S', parts.bootstrap, parts.guestDir, JSON.stringify(settings), ...agentOptions],
    { stdio: ['pipe', 'pipe', 'pipe', 'pipe'], env: {}, cwd: '/', ...parts.dropTo },
  )
  const report = reportOf(child)
  const agentPid = report.then(({ pid }) => pid)
  // The trial does not look at it; a host that cannot run the jail must not end the worker by an unhandled rejection.
  for (const promise of [report, agentPid]) promise.catch(() => {})
  return { launched: { child, agentPid }, report }
}

function reportOf(child: ChildProcess): Promise<Report> {
  const info = child.stdio[3] as Readable
  return new Promise((resolve, reject) => {
    let text = ''
    info.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1')
      if (!text.endsWith('\n')) return
      const parsed = reportSchema.safeParse(JSON.parse(text))
      if (parsed.success) resolve(parsed.data)
      else reject(new Error('the jail reported nonsense'))
    })
    info.on('close', () => reject(new Error('the jail ended before it stood')))
    info.on('error', reject)
    child.on('error', reject)
  })
}

async function tryOnce(parts: SelfJailParts, signal: AbortSignal): Promise<Report | string> {
  const { launched, report } = start(parts, {
    folder: parts.trialFolder,
    hasCgroup: false,
    spec: TRIAL_SPEC,
  })
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
  }
}

const TRIAL_SPEC: SandboxSpec = {
  sandboxId: 'sbx_trial',
  executionId: 'exe_trial',
  attempt: 1,
  tenantId: 'trial',
  owner: 'wrk_trial',
  program: { type: 'script', language: 'python', source: '' },
  limits: {
    ...DEFAULT_LIMITS,
  },
  network: 'none',
  env: {},
  preload: null,
  reuse: 'job',
  session: null,
}
