/** What every host backend needs on disk before its first sandbox: guest files, filters, stubs of /etc, a readable Node. */
import { execFile } from 'node:child_process'
import { access, copyFile, constants, mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { guestDigest, installGuest } from '@cofferdam/guest'
import { noNetworkFilter, seccompArch, seccompFilter } from '../process/seccomp.ts'
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
  const digest = guestDigest().slice(0, 16)
  const guestDir = join(runtimeDir, `guest-${digest}-python${python.version}`)
  await once(guestDir, (folder) => installGuest(folder, python.executable))
  const arch = seccompArch()
  const files = join(runtimeDir, `files-${digest}`)
  await once(files, async (folder) => {
    await mkdir(folder)
    for (const [name, text] of Object.entries(ETC)) await writeFile(join(folder, name), text)
    await copyFile(fileURLToPath(new URL('../process/jail.py', import.meta.url)), join(folder, 'jail.py'))
    if (arch === null) return
    await writeFile(join(folder, 'local.bpf'), seccompFilter(arch, 'local'))
    await writeFile(join(folder, 'closed.bpf'), seccompFilter(arch, 'none'))
    await writeFile(join(folder, 'no-network.bpf'), noNetworkFilter(arch))
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
    noNetworkFilter: filter('no-network.bpf'),
    dropTo,
  }
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
