/** What every host backend needs on disk before its first sandbox: guest files, filters, stubs of /etc, a readable Node. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { access, copyFile, constants, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { guestDigest, installGuest } from '@cofferdam/guest'
import {
  bareFilter,
  noNetworkFilter,
  seccompArch,
  seccompFilter,
  type SeccompArch,
} from '../process/seccomp.ts'
import { findPython, type Python } from './interpreters.ts'
import type { DropTo } from './rung.ts'
import { ensureRuntimeDir } from './runtime-dir.ts'

export interface HostParts {
  python: Python
  node: string
  guestDir: string
  etcDir: string
  /** jail.py. */
  bootstrap: string
  /** Filter of the bwrap rung; null where we have no numbers for this machine, as below. */
  filter: string | null
  /** Filter of the self-jail: no sockets. */
  closedFilter: string | null
  /** The filter of a jail without namespaces. */
  bareFilter: string | null
  noNetworkFilter: string | null
  dropTo: DropTo | null
}

export interface PrepareOptions {
  runtimeDir: string
  python: string | undefined
  node: string
  /** What programs run as when the worker is root. */
  dropTo: DropTo
}

const ETC = {
  passwd: 'root:x:0:0:root:/:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n',
  group: 'root:x:0:\nnogroup:x:65534:\n',
  hosts: '127.0.0.1 localhost\n::1 localhost\n',
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
}

/** Prepares the runtime folder; safe beside other workers. Resolves with what is missing as text. */
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
  const contents = await fenceFiles(arch)
  const files = join(runtimeDir, `files-${digestOf(contents)}`)
  await once(files, async (folder) => {
    await mkdir(folder)
    for (const [name, content] of contents) await writeFile(join(folder, name), content)
  })
  const filter = (name: string): string | null => (arch === null ? null : join(files, name))
  return {
    python,
    node: await readableNode(options.node, runtimeDir, dropTo, signal),
    guestDir,
    etcDir: files,
    bootstrap: join(files, 'jail.py'),
    filter: filter('local.bpf'),
    closedFilter: filter('closed.bpf'),
    bareFilter: filter('bare.bpf'),
    noNetworkFilter: filter('no-network.bpf'),
    dropTo,
  }
}

/** What fences sandboxes in, by name. The folder is named by these contents: a new version must never find an old filter. */
async function fenceFiles(arch: SeccompArch | null): Promise<[string, string | Buffer][]> {
  const jail = await readFile(fileURLToPath(new URL('../process/jail.py', import.meta.url)))
  const files: [string, string | Buffer][] = [...Object.entries(ETC), ['jail.py', jail]]
  if (arch === null) return files
  return [
    ...files,
    ['local.bpf', seccompFilter(arch, 'local')],
    ['closed.bpf', seccompFilter(arch, 'none')],
    ['bare.bpf', bareFilter(arch)],
    ['no-network.bpf', noNetworkFilter(arch)],
  ]
}

function digestOf(contents: readonly [string, string | Buffer][]): string {
  const hash = createHash('sha256')
  for (const [name, content] of contents) hash.update(`${name}\0${content.length}\0`).update(content)
  return hash.digest('hex').slice(0, 16)
}

/** Makes a folder that is either complete or absent, whoever else makes it at the same time. */
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

/** The worker's Node may lie where only root can look: the user that programs run as then gets a copy. */
async function readableNode(
  node: string,
  runtimeDir: string,
  dropTo: DropTo | null,
  signal: AbortSignal,
): Promise<string> {
  if (dropTo === null) return node
  const works = await promisify(execFile)(node, ['--version'], { ...dropTo, cwd: '/', env: {}, signal }).then(
    () => true,
    () => false,
  )
  signal.throwIfAborted()
  if (works) return node
  const folder = join(runtimeDir, `node-${process.version}`)
  await once(folder, async (draft) => {
    await mkdir(draft)
    await copyFile(node, join(draft, basename(node)), constants.COPYFILE_FICLONE)
  })
  return join(folder, basename(node))
}
