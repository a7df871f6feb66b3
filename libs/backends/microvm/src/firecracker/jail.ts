/**
 * The jail of one machine, as the jailer makes it (Firecracker’s docs/jailer.md):
 *
 *   <chroot base>/<name of the binary>/<id>/root      what the VMM sees as /
 *     firecracker   copy of the binary          firecracker.pid   its pid outside
 *     run/fc.sock   API                         v.sock, v.sock_<port>   vsock
 *     log           pipe of its log             kernel, initramfs, root | state, memory   hard links
 *
 * Files of a template are links, so a clone costs no copy and all clones share the page cache. The jailer
 * does not remove what it made.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chown, link, mkdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { CofferdamError } from '@cofferdam/contract'
import type { FirecrackerSettings } from './settings.ts'

const run = promisify(execFile)

/** `sun_path` of unix(7) has 108 bytes, including the final NUL. */
const SOCKET_PATH_BYTES = 107
/** The longest vsock path: Firecracker appends the port, which has at most five digits. */
const LONGEST_SOCKET = 'v.sock_65535'
/** Longest `chrootBase`. Socket paths then fit, with IDs of 26 bytes and a binary name of up to 26 bytes. */
export const CHROOT_BASE_BYTES = 24
/** Memory for the VMM itself, besides the guest’s. It needs about 5 MiB. */
const VMM_MIB = 64
const CPU_PERIOD_US = 100_000
/** Threads of the VMM besides those of the vCPUs: API, main loop and KVM’s own, with room to spare. */
const VMM_THREADS = 32
const OPEN_FILES = 2048
const MiB = 1_048_576

/**
 * Paths as the VMM sees them. `v.sock` is relative: a snapshot stores the path, and in each clone it must
 * lead to that clone's socket.
 */
export const INSIDE = {
  api: '/run/fc.sock',
  vsock: 'v.sock',
  log: '/log',
  kernel: '/kernel',
  initramfs: '/initramfs',
  root: '/rootfs',
  state: '/state',
  memory: '/memory',
} as const

export interface Jail {
  id: string
  /** Removed, with everything in it, when the machine ends. */
  folder: string
  root: string
  api: string
  vsock: string
  log: string
  /** Where the jailer writes the pid of the VMM. */
  pidFile: string
  /** Folder of its cgroup. */
  cgroup: string
}

/** Letters, digits and a hyphen, because the jailer takes no others (src/utils/src/validators.rs). */
export const jailId = (use: 'clone' | 'template', name: string): string =>
  `${use[0]}-${createHash('sha256').update(name).digest('hex').slice(0, 24)}`

export const isJailId = (name: string): boolean => /^[ct]-[0-9a-f]{24}$/.test(name)

/** Throws `config_invalid` if a socket would not fit. */
export function planJail(settings: FirecrackerSettings, cgroupMount: string, id: string): Jail {
  const name = basename(settings.firecracker)
  const folder = join(settings.chrootBase, name, id)
  const root = join(folder, 'root')
  const longest = Math.max(...[LONGEST_SOCKET, INSIDE.api].map((path) => Buffer.byteLength(join(root, path))))
  if (longest > SOCKET_PATH_BYTES)
    throw new CofferdamError(
      'config_invalid',
      `microvm: sockets below ${root} would have paths of ${longest} bytes; the kernel takes ` +
        `${SOCKET_PATH_BYTES}. Shorten chroot_base.`,
    )
  return {
    id,
    folder,
    root,
    api: join(root, INSIDE.api),
    vsock: join(root, INSIDE.vsock),
    log: join(root, INSIDE.log),
    pidFile: join(root, `${name}.pid`),
    cgroup: join(cgroupMount, settings.parentCgroup, id),
  }
}

/** Creates the root with links to `files`, by their names inside, and the pipe of the log. */
export async function furnishJail(jail: Jail, uid: number, files: Record<string, string>): Promise<void> {
  // Parents stay root’s. The jailer gives the root itself to the uid.
  await mkdir(jail.folder, { recursive: true, mode: 0o755 })
  await mkdir(jail.root, { mode: 0o700 })
  for (const [inside, outside] of Object.entries(files))
    await link(outside, join(jail.root, inside)).catch((cause: unknown) => {
      const code = (cause as NodeJS.ErrnoException).code
      const why =
        code === 'EXDEV'
          ? 'it is on another file system than chroot_base, and a hard link cannot lead there. Set ' +
            'image_dir and runtime_dir to folders on the file system of chroot_base'
          : String(code)
      throw new CofferdamError('sandbox_open_failed', `microvm: ${outside} cannot be linked: ${why}.`, {
        cause,
      })
    })
  await run('mkfifo', ['-m', '600', jail.log])
  await chown(jail.log, uid, uid)
}

export interface JailerUse {
  uid: number
  memoryMib: number
  vcpus: number
  /** The largest file that the VMM may write. */
  fileMib: number
}

/** The jailer’s command line (docs/jailer.md, Jailer Usage). */
export function jailerArguments(settings: FirecrackerSettings, jail: Jail, use: JailerUse): string[] {
  const option = (name: string, value: string | number): string[] => [`--${name}`, String(value)]
  return [
    ...option('id', jail.id),
    ...option('exec-file', settings.firecracker),
    ...option('uid', use.uid),
    ...option('gid', use.uid),
    ...option('chroot-base-dir', settings.chrootBase),
    ...option('cgroup-version', 2),
    ...option('parent-cgroup', settings.parentCgroup),
    ...option('cgroup', `memory.max=${(use.memoryMib + VMM_MIB) * MiB}`),
    ...option('cgroup', `pids.max=${use.vcpus + VMM_THREADS}`),
    ...option('cgroup', `cpu.max=${use.vcpus * CPU_PERIOD_US} ${CPU_PERIOD_US}`),
    ...option('resource-limit', `fsize=${use.fileMib * MiB}`),
    ...option('resource-limit', `no-file=${OPEN_FILES}`),
    // Makes the VMM the first process of its own namespace: when it ends, the kernel kills all others in
    // there.
    '--new-pid-ns',
    '--',
    ...option('api-sock', INSIDE.api),
  ]
}
