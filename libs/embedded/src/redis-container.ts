/**
 * Redis in a container, the last resort. A published loopback port with a random password, not a mounted socket:
 * sockets do not cross the virtual machine of Docker Desktop.
 *
 * The container dies with us: its first process reads our stdin, which the kernel closes when we end in any way, and
 * then stops the server. No label, sweep or signal has to reach the daemon.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runProgram } from './find-program.ts'

const WATCH_STDIN =
  // A shell gives background jobs /dev/null as stdin, so the watcher gets the pipe under another number.
  'exec 3<&0; (cat <&3 >/dev/null; kill -TERM 1) & exec "$0" "$@"'

export interface ContainerSettings {
  name: string
  password: string
  flags: readonly string[]
  dataDir: string
}

const AUTH_FILE = 'container-auth.conf'

/** The docker command line; its stdin must be a pipe of ours. Writes the password to a file: arguments show in `ps`. */
export function containerCommand(
  found: { docker: string; image: string },
  settings: ContainerSettings,
): [string, ...string[]] {
  writeFileSync(join(settings.dataDir, AUTH_FILE), `requirepass ${settings.password}\n`, { mode: 0o600 })
  return [
    found.docker,
    'run',
    '--rm',
    '--interactive',
    '--name',
    settings.name,
    '--publish',
    '127.0.0.1::6379',
    '--volume',
    `${settings.dataDir}:/data`,
    '--entrypoint',
    'sh',
    found.image,
    '-c',
    WATCH_STDIN,
    'valkey-server',
    `/data/${AUTH_FILE}`,
    '--dir',
    '/data',
    ...settings.flags,
  ]
}

/** The loopback port that Docker chose; null until the container runs. */
export async function publishedPort(docker: string, name: string): Promise<number | null> {
  try {
    const text = await runProgram([docker, 'port', name, '6379/tcp'], { timeoutMs: 5000 })
    const port = Number(/:(\d+)\s*$/m.exec(text)?.[1])
    return Number.isInteger(port) && port > 0 ? port : null
  } catch {
    return null
  }
}
