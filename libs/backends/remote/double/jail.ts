/** A sandbox of a double: one server program in a bubblewrap jail that listens on a unix socket. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'

/** How long the program of a jail may take to listen. On an idle machine it takes 0.2 s. */
const READY_MS = 20_000
const NOBODY = 65_534
/** Those capabilities of root in a Docker container that an agent could use. */
const CONTAINER_CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'KILL', 'SETGID', 'SETUID']
/** bubblewrap would create these folders by itself, but only root could enter them. */
const FOLDERS = ['/etc', '/home', '/opt', '/opt/node', '/opt/node/bin', '/run']
/** Paths inside: the program's socket, and Node.js. */
export const SOCKET = '/run/jail/socket'
export const NODE = '/opt/node/bin/node'

export interface JailOptions {
  hostname: string
  /** `root`: no user namespace, capabilities of a container's root; needs root on this host. */
  uid: number | 'root'
  /** The command, which must listen on SOCKET. */
  command: readonly string[]
  /** Files or folders of this host that are visible read-only inside: source, target below /opt. */
  shows: readonly (readonly [string, string])[]
  environment: Record<string, string>
  /** Whether the program is the first process of the jail, and not its child. */
  isInit: boolean
  /**
   * Whether programs may create their own jails with a /proc. If root starts bubblewrap, it covers parts of
   * the jail's /proc, and the kernel then lets programs inside mount no other /proc. So with this option,
   * root starts bubblewrap as another user if that user can create jails and read the shown files.
   */
  nests?: boolean
}

export interface Jail extends AsyncDisposable {
  /** The socket's path on this host. */
  readonly socket: string
  /** Resolves when the jail has ended, whoever ended it. */
  readonly ended: Promise<unknown>
  /** Stops its first process, as on a hanging host. Its connections stay open. */
  hang(): Promise<void>
}

/** Opens a jail to find out why jails cannot run here; null if they can. */
export function missing(): string | null {
  if (process.platform !== 'linux') return 'doubles that run programs need Linux'
  const namespaces = ['--unshare-all', '--unshare-user', '--die-with-parent']
  const tree = ['--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev']
  const trial = spawnSync('bwrap', [...namespaces, ...tree, '--', '/bin/true'], { encoding: 'utf8' })
  if (trial.error !== undefined) return 'bubblewrap is not installed (apt install bubblewrap)'
  if (trial.status !== 0) {
    const said = trial.stderr.trim() || `it ended with ${trial.signal ?? trial.status}`
    return `bubblewrap opens no sandbox here: ${said} (allow unprivileged user namespaces)`
  }
  return existsSync('/usr/bin/python3') ? null : 'there is no /usr/bin/python3 (apt install python3)'
}

/** Starts a jail. Resolves when its program listens. */
export async function startJail(options: JailOptions): Promise<Jail> {
  const root = mkdtempSync(join(tmpdir(), 'cofferdam-double-'))
  for (const name of ['home', 'run']) mkdirSync(join(root, name))
  const uid = options.uid === 'root' ? 1000 : options.uid
  const passwd = `root:x:0:0::/root:/bin/bash\nuser:x:${uid}:${uid}::/home/user:/bin/bash\n`
  writeFileSync(join(root, 'passwd'), passwd)
  const user = options.nests === true ? await nobody(options) : {}
  if (user.uid !== undefined)
    for (const name of ['', 'home', 'run', 'passwd']) chownSync(join(root, name), user.uid, user.uid)
  const child = spawn('bwrap', argumentsOf(root, options), {
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
    ...user,
  })
  const init = initOf(child.stdio[3] as Readable)
  const ended = once(child, 'exit').then(() => rmSync(root, { recursive: true, force: true }))
  const jail: Jail = {
    socket: join(root, 'run/socket'),
    ended,
    async [Symbol.asyncDispose]() {
      // Kill the namespace's first process: the kernel ends it only after all others in it, and bubblewrap
      // waits for it.
      const pid = await Promise.race([init, ended])
      if (typeof pid === 'number') signalled(pid, 'SIGKILL')
      else child.kill('SIGKILL')
      await ended
    },
    async hang() {
      const pid = await init
      if (pid !== undefined) signalled(pid, 'SIGSTOP')
    },
  }
  try {
    await listens(jail.socket, child)
    return jail
  } catch (error) {
    await jail[Symbol.asyncDispose]()
    throw error
  }
}

/** The user to run as instead of root. Root if others may not create jails or cannot read the shown files. */
async function nobody({ shows }: JailOptions): Promise<{ uid?: number; gid?: number }> {
  if (process.getuid?.() !== 0) return {}
  const user = { uid: NOBODY, gid: NOBODY }
  const paths = [tmpdir(), process.execPath, ...shows.map(([source]) => source)]
  const reached = paths.flatMap((path) => ['-a', '-r', path]).slice(1)
  const trial = ['--unshare-all', '--unshare-user', '--ro-bind', '/', '/', 'test', ...reached]
  const [code] = (await once(spawn('bwrap', trial, { ...user, stdio: 'ignore' }), 'exit')) as [number | null]
  return code === 0 ? user : {}
}

/** Pid of the jail's first process on this host; undefined if there was none. */
async function initOf(info: Readable): Promise<number | undefined> {
  let text = ''
  for await (const part of info) text += String(part)
  const pid = /"child-pid":\s*(\d+)/.exec(text)?.[1]
  return pid === undefined ? undefined : Number(pid)
}

function signalled(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // The process has ended already.
  }
}

function argumentsOf(
  root: string,
  { hostname, uid, command, shows, environment, isInit }: JailOptions,
): string[] {
  const variables = {
    PATH: '/opt/node/bin:/usr/local/bin:/usr/bin:/bin',
    HOME: '/home/user',
    LANG: 'C.UTF-8',
    ...environment,
  }
  return [
    ['ipc', 'pid', 'net', 'uts', 'cgroup-try'].map((name) => `--unshare-${name}`),
    uid === 'root' ? [] : ['--unshare-user', '--uid', String(uid), '--gid', String(uid)],
    ['--hostname', hostname, '--die-with-parent', '--new-session', '--clearenv', '--cap-drop', 'ALL'],
    uid === 'root' ? CONTAINER_CAPABILITIES.flatMap((name) => ['--cap-add', `CAP_${name}`]) : [],
    isInit ? ['--as-pid-1'] : [],
    FOLDERS.flatMap((path) => ['--perms', '0755', '--dir', path]),
    ['--ro-bind', '/usr', '/usr'],
    ...['bin', 'sbin', 'lib', 'lib64'].map((name) => ['--symlink', `usr/${name}`, `/${name}`]),
    ['--ro-bind', join(root, 'passwd'), '/etc/passwd'],
    ['--ro-bind-try', '/etc/alternatives', '/etc/alternatives'],
    ['--ro-bind', process.execPath, NODE],
    ...shows.map(([source, target]) => ['--ro-bind', source, target]),
    ['--bind', join(root, 'home'), '/home/user', '--bind', join(root, 'run'), '/run/jail'],
    ['--proc', '/proc', '--dev', '/dev', '--tmpfs', '/dev/shm', '--tmpfs', '/tmp', '--chdir', '/home/user'],
    ...Object.entries(variables).map(([name, value]) => ['--setenv', name, value]),
    ['--info-fd', '3', '--', ...command],
  ].flat()
}

async function listens(socket: string, child: ChildProcess): Promise<void> {
  const deadline = performance.now() + READY_MS
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('the jail ended at once')
    if (await connects(socket)) return
    if (performance.now() > deadline) throw new Error('the program in the jail does not listen')
    await sleep(5)
  }
}

function connects(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createConnection(path)
    probe.once('connect', () => {
      probe.destroy()
      resolve(true)
    })
    probe.once('error', () => resolve(false))
  })
}
