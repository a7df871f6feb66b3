/**
 * Redis in a container, as the last resort. It listens on a published loopback port with a random password,
 * because a mounted socket does not work across the virtual machine of Docker Desktop.
 *
 * The container ends with this process. A watcher in the container reads our stdin, which the kernel closes
 * when we end, and then stops the server. For that, nothing has to call the daemon.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runProgram } from './find-program.ts'

const WATCH_STDIN =
  // A shell gives background jobs /dev/null as stdin, so the watcher reads the pipe from descriptor 3.
  'exec 3<&0; (cat <&3 >/dev/null; kill -TERM 1) & exec "$0" "$@"'

export interface ContainerSettings {
  name: string
  password: string
  flags: readonly string[]
  dataDir: string
}

const AUTH_FILE = 'container-auth.conf'

/** The docker command line. Its stdin must be our pipe. `ps` shows arguments, so a file has the password. */
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

/** The loopback port that Docker chose. Null until the container runs. */
export async function publishedPort(docker: string, name: string): Promise<number | null> {
  try {
    const text = await runProgram([docker, 'port', name, '6379/tcp'], { timeoutMs: 5000 })
    const port = Number(/:(\d+)\s*$/m.exec(text)?.[1])
    return Number.isInteger(port) && port > 0 ? port : null
  } catch {
    return null
  }
}
