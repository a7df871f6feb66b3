/** One sandbox of the double: envd.py inside of a bubblewrap jail with a home of its own, reached over a unix socket. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const ENVD = fileURLToPath(new URL('envd.py', import.meta.url))
/** envd.py answers within 0.2 s on an idle machine. */
const READY_MS = 20_000
const NODE = '/opt/e2b/node'

export interface Machine extends AsyncDisposable {
  /** Path of envd's unix socket on this host. */
  readonly socket: string
  /** Resolves when it is over, whoever ended it. */
  readonly ended: Promise<unknown>
}

/** Why sandboxes cannot run here; null when they can. */
export function missing(): string | null {
  if (process.platform !== 'linux') return 'the double of E2B needs Linux'
  try {
    execFileSync('bwrap', ['--version'], { stdio: 'ignore' })
  } catch {
    return 'bubblewrap is not installed (apt install bubblewrap)'
  }
  return existsSync('/usr/bin/python3') ? null : 'there is no /usr/bin/python3 (apt install python3)'
}

/** Starts one; resolves when its envd answers. `environment` is what every process of it gets. */
export async function startMachine(token: string, environment: Record<string, string>): Promise<Machine> {
  const root = mkdtempSync(join(tmpdir(), 'e2b-double-'))
  for (const name of ['home', 'run']) mkdirSync(join(root, name))
  writeFileSync(join(root, 'passwd'), 'root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n')
  const child = spawn('bwrap', jail(root, token, environment), { stdio: ['ignore', 'ignore', 'inherit'] })
  const ended = once(child, 'exit')
  const socket = join(root, 'run/envd.sock')
  const machine: Machine = {
    socket,
    ended,
    async [Symbol.asyncDispose]() {
      // The jail's first process is envd's parent: with it goes everything inside.
      child.kill('SIGKILL')
      await ended
      rmSync(root, { recursive: true, force: true })
    },
  }
  try {
    await answers(socket, child)
    return machine
  } catch (error) {
    await machine[Symbol.asyncDispose]()
    throw error
  }
}

function jail(root: string, token: string, environment: Record<string, string>): string[] {
  const variables = {
    PATH: '/opt/e2b:/usr/local/bin:/usr/bin:/bin',
    HOME: '/home/user',
    LANG: 'C.UTF-8',
    ENVD_TOKEN: token,
    ...environment,
  }
  return [
    ['--unshare-all', '--unshare-user', '--uid', '1000', '--gid', '1000', '--hostname', 'e2b'],
    ['--die-with-parent', '--new-session', '--cap-drop', 'ALL', '--clearenv'],
    ['--ro-bind', '/usr', '/usr'],
    ...['bin', 'sbin', 'lib', 'lib64'].map((name) => ['--symlink', `usr/${name}`, `/${name}`]),
    ['--ro-bind', join(root, 'passwd'), '/etc/passwd'],
    ['--ro-bind-try', '/etc/alternatives', '/etc/alternatives'],
    ['--ro-bind', process.execPath, NODE],
    ['--ro-bind', ENVD, '/opt/e2b/envd.py'],
    ['--bind', join(root, 'home'), '/home/user', '--bind', join(root, 'run'), '/run/e2b'],
    ['--proc', '/proc', '--dev', '/dev', '--tmpfs', '/tmp', '--chdir', '/home/user'],
    ...Object.entries(variables).map(([name, value]) => ['--setenv', name, value]),
    ['--', '/usr/bin/python3', '-I', '/opt/e2b/envd.py', '/run/e2b/envd.sock'],
  ].flat()
}

async function answers(socket: string, child: ChildProcess): Promise<void> {
  const deadline = performance.now() + READY_MS
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error('the jail of the sandbox ended at once')
    if (await connects(socket)) return
    if (performance.now() > deadline) throw new Error('envd does not answer')
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

/** `[a-z0-9]{20}`: it is a DNS label's beginning. */
export const newSandboxId = (): string =>
  Array.from(randomBytes(20), (byte) => '0123456789abcdefghijklmnopqrstuvwxyz'[byte % 36]).join('')
