/** Files that host backends need before their first sandbox: guest files, filters, /etc stubs, Node. */
import { createHash } from 'node:crypto'
import {
  access,
  chmod,
  copyFile,
  constants,
  link,
  mkdir,
  readFile,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { guestDigest, installGuest } from '../guest/index.ts'
import {
  bareFilter,
  noNetworkFilter,
  seccompArch,
  seccompFilter,
  type SeccompArch,
} from '../process/seccomp.ts'
import { etcFiles, type JailFile } from './etc-files.ts'
import { findPython, type Python } from './interpreters.ts'
import type { DropTo } from './rung.ts'
import { ensureRuntimeDir } from './runtime-dir.ts'

export interface HostParts {
  python: Python
  node: string
  guestDir: string
  /** The /etc of jails with their own file tree. */
  etcDir: string
  /** An empty file, to mount over others. */
  emptyFile: string
  /** Path of jail.py, which isolates a jail that has no bwrap. */
  bootstrap: string
  /** Null on a machine without known system call numbers. */
  filters: Filters | null
  /** Programs' user if slots have no own uid; null for the worker's user. */
  dropTo: DropTo | null
}

/** Files with seccomp filters. `watched`: for slots without a cgroup for memory. */
export interface Filters {
  jail: { limited: string; watched: string }
  /** For a jail without namespaces. */
  bare: { limited: string; watched: string }
  /** For the plain rung. Refuses io_uring and all sockets except unix sockets. */
  noNetwork: string
}

export interface PrepareOptions {
  runtimeDir: string
  python: string | undefined
  node: string
  /** Programs' user if the worker is root. */
  dropTo: DropTo
}

/**
 * Prepares the runtime folder. Several workers may do so at once. If something is missing, resolves with a
 * text about it.
 */
export async function prepareHost(
  options: PrepareOptions,
  signal: AbortSignal,
): Promise<HostParts | { missing: string; fix: string }> {
  const { runtimeDir } = options
  if (process.platform !== 'linux')
    return { missing: `this is ${process.platform}, not Linux`, fix: 'Use the docker backend.' }
  const python = await findPython(options.python, signal)
  if (python === null)
    return {
      missing: `no Python 3.8 or newer${options.python === undefined ? '' : ` at ${options.python}`}`,
      fix: 'apt install python3, or set python in the backend’s section.',
    }
  await ensureRuntimeDir(runtimeDir)
  const dropTo = process.getuid?.() === 0 ? options.dropTo : null
  const guestDir = join(runtimeDir, `guest-${guestDigest().slice(0, 16)}-python${python.version}`)
  await once(guestDir, (folder) => installGuest(folder, python.executable))
  const arch = seccompArch()
  const contents = await fenceFiles(arch, python)
  const files = join(runtimeDir, `files-${digestOf(contents)}`)
  await once(files, async (folder) => {
    for (const { path, content, isLink } of contents) {
      const target = join(folder, path)
      await mkdir(dirname(target), { recursive: true })
      await (isLink ? symlink(String(content), target) : writeFile(target, content))
    }
    // The worker's umask must not hide these files from programs.
    for (const name of ['.', 'etc']) await chmod(join(folder, name), 0o755)
  })
  return {
    python,
    node: await readableNode(options.node, runtimeDir, dropTo),
    guestDir,
    etcDir: join(files, 'etc'),
    emptyFile: join(files, 'empty'),
    bootstrap: join(files, 'jail.py'),
    filters: arch === null ? null : filtersIn(files),
    dropTo,
  }
}

const filtersIn = (folder: string): Filters => ({
  jail: { limited: join(folder, 'jail.bpf'), watched: join(folder, 'jail-watched.bpf') },
  bare: { limited: join(folder, 'bare.bpf'), watched: join(folder, 'bare-watched.bpf') },
  noNetwork: join(folder, 'no-network.bpf'),
})

/**
 * The files that isolate jails, with their names. Their digest is in the folder's name, so a new version
 * never uses an old filter.
 */
async function fenceFiles(arch: SeccompArch | null, python: Python): Promise<JailFile[]> {
  const jail = await readFile(fileURLToPath(new URL('../process/jail.py', import.meta.url)))
  const etc = await etcFiles(python)
  const file = (path: string, content: string | Buffer): JailFile => ({
    path,
    content,
    isLink: false,
  })
  const files = [
    ...etc.map((entry) => ({ ...entry, path: `etc/${entry.path}` })),
    file('empty', ''),
    file('jail.py', jail),
  ]
  if (arch === null) return files
  return [
    ...files,
    file('jail.bpf', seccompFilter(arch, false)),
    file('jail-watched.bpf', seccompFilter(arch, true)),
    file('bare.bpf', bareFilter(arch, false)),
    file('bare-watched.bpf', bareFilter(arch, true)),
    file('no-network.bpf', noNetworkFilter(arch)),
  ]
}

function digestOf(contents: readonly JailFile[]): string {
  const hash = createHash('sha256')
  for (const { path, content, isLink } of contents)
    hash.update(`${path}\0${isLink}\0${content.length}\0`).update(content)
  return hash.digest('hex').slice(0, 16)
}

/** Creates a folder that is either complete or absent, even with concurrent creators. */
async function once(folder: string, fill: (folder: string) => Promise<void>): Promise<void> {
  const exists = (): Promise<boolean> =>
    access(folder).then(
      () => true,
      () => false,
    )
  if (await exists()) return
  const draft = `${folder}.${process.pid}.${Date.now()}`
  try {
    await fill(draft)
    await rename(draft, folder)
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    if (!(await exists())) throw error
  }
}

/**
 * The worker's Node may be readable only by root, and its path would show in every sandbox's mountinfo. So
 * root gives it a neutral name in the runtime folder: by a hard link, or by a copy.
 */
async function readableNode(node: string, runtimeDir: string, dropTo: DropTo | null): Promise<string> {
  if (dropTo === null || node.startsWith('/usr/')) return node
  const digest = createHash('sha256').update(node).digest('hex').slice(0, 8)
  const folder = join(runtimeDir, `node-${process.version}-${digest}`)
  await once(folder, async (draft) => {
    await mkdir(draft)
    const target = join(draft, basename(node))
    await link(node, target).catch(() => copyFile(node, target, constants.COPYFILE_FICLONE))
  })
  return join(folder, basename(node))
}
