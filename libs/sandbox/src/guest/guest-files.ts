/** The agent's files: paths, digest, and installation into a folder that sandboxes can read. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { chmod, copyFile, mkdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const AGENT_DIR = fileURLToPath(new URL('../../agent/', import.meta.url))

const resolved = (name: string): string => createRequire(import.meta.url).resolve(name)

/**
 * Libraries of node-gate/typescript.cjs, each one self-contained CommonJS file: the transformer of syntax
 * that Node's stripper refuses, the reader of tsconfig.json, and the compiler for decorators and JSX (the
 * last major version that is written in JavaScript).
 */
const LIBRARIES = (): GuestFile[] => [
  { name: 'node-gate/amaro.cjs', source: join(dirname(resolved('amaro')), 'internal.js') },
  { name: 'node-gate/get-tsconfig.cjs', source: resolved('get-tsconfig') },
  { name: 'node-gate/node_modules/resolve-pkg-maps/index.js', source: resolved('resolve-pkg-maps') },
  { name: COMPILER, source: resolved('typescript-compiler') },
]
/**
 * 9 MB, so it is left out where files are sent to each sandbox. Decorators and .tsx files then fail with
 * Node's error.
 */
export const COMPILER = 'node-gate/compiler.cjs'

const NAMES = [
  'agent.py',
  'http_pod.py',
  'pod.py',
  'cofferdam_agent/__init__.py',
  'cofferdam_agent/agent.py',
  'cofferdam_agent/cell.py',
  'cofferdam_agent/channel.py',
  'cofferdam_agent/collect.py',
  'cofferdam_agent/fork_server.py',
  'cofferdam_agent/gate.py',
  'cofferdam_agent/glob.py',
  'cofferdam_agent/http_agent.py',
  'cofferdam_agent/jsontext.py',
  'cofferdam_agent/kept_interpreter.py',
  'cofferdam_agent/kept_interpreters.py',
  'cofferdam_agent/landlock.py',
  'cofferdam_agent/late_output.py',
  'cofferdam_agent/linux.py',
  'cofferdam_agent/main.py',
  'cofferdam_agent/meters.py',
  'cofferdam_agent/options.py',
  'cofferdam_agent/processes.py',
  'cofferdam_agent/program_end.py',
  'cofferdam_agent/reap.py',
  'cofferdam_agent/reattach.py',
  'cofferdam_agent/reports.py',
  'cofferdam_agent/restrictions.py',
  'cofferdam_agent/root.py',
  'cofferdam_agent/run.py',
  'cofferdam_agent/soft_stop.py',
  'cofferdam_agent/spawn.py',
  'cofferdam_agent/streams.py',
  'cofferdam_agent/sysv.py',
  'cofferdam_agent/tunnel.py',
  'cofferdam_agent/uids.py',
  'cofferdam_agent/usage.py',
  'cofferdam_agent/waiting.py',
  'cofferdam_agent/walk.py',
  'cofferdam_agent/workdir.py',
  'cofferdam_agent/writable_paths.py',
  'python-gate/cofferdam_forks.py',
  'python-gate/cofferdam_given.py',
  'python-gate/cofferdam_host.py',
  'python-gate/cofferdam_notebook.py',
  'python-gate/cofferdam_preload.py',
  'python-gate/cofferdam_program.py',
  'python-gate/cofferdam_session.py',
  'python-gate/cofferdam_start.py',
  'python-gate/cofferdam_value.py',
  'python-gate/sitecustomize.py',
  'node-gate/gate.cjs',
  'node-gate/imports.cjs',
  'node-gate/session.cjs',
  'node-gate/typescript.cjs',
  'node-gate/value.cjs',
  'bash-gate/session.sh',
  'python-lib/cofferdam.py',
  'node-lib/cofferdam.cjs',
  'bin/cofferdam-progress',
] as const

export interface GuestFile {
  /** The file's path relative to the guest folder. */
  name: string
  /** The file's path on this machine. */
  source: string
}

/** Every file that the guest folder of a sandbox holds. */
export function guestFiles(): GuestFile[] {
  return [...NAMES.map((name) => ({ name, source: join(AGENT_DIR, name) })), ...LIBRARIES()]
}

/** All guest files except COMPILER in one file, for a third-party image. `unpackArgv` unpacks it. */
export function guestBundle(): Buffer {
  const sent = guestFiles().filter(({ name }) => name !== COMPILER)
  const contents = sent.map(({ name, source }) => [name, readFileSync(source).toString('base64')])
  return Buffer.from(JSON.stringify(Object.fromEntries(contents)))
}

/**
 * The command that unpacks `bundle` into `folder` inside a container whose host name is `host`. It then
 * becomes the agent with `args` (`exec`, with stdin and stdout as its channel), or starts pod.py with `args`
 * and ends (`listen`).
 */
export function unpackArgv(
  python: string,
  where: { bundle: string; folder: string; host: string },
  way: 'exec' | 'listen',
  args: readonly string[],
): string[] {
  const code = readFileSync(join(AGENT_DIR, 'unpack.py'), 'utf8')
  return [python, '-I', '-S', '-c', code, where.bundle, where.folder, where.host, way, ...args]
}

/** SHA-256 (hex) of names and contents. In every pool key, so a new worker never uses old slots. */
export function guestDigest(): string {
  const hash = createHash('sha256')
  for (const { name, source } of guestFiles()) {
    const bytes = readFileSync(source)
    hash.update(`${name}\0${bytes.length}\0`).update(bytes)
  }
  return hash.digest('hex')
}

/**
 * Copies the guest files into `folder`, which it creates if needed and makes readable for everyone. With
 * `python` it also compiles them for that interpreter: without byte code the agent's start takes twice as
 * long. Throws file system errors.
 */
export async function installGuest(folder: string, python?: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  for (const { name, source } of guestFiles()) {
    const target = join(folder, name)
    await mkdir(dirname(target), { recursive: true })
    await copyFile(source, target)
    await chmod(dirname(target), 0o755)
    await chmod(target, name.startsWith('bin/') ? 0o755 : 0o644)
  }
  await chmod(folder, 0o755)
  if (python === undefined) return
  // Unchecked, because the folder is read-only inside a sandbox, and a mount or copy may change file times.
  const args = ['-I', '-m', 'compileall', '-q', '--invalidation-mode', 'unchecked-hash', folder]
  await promisify(execFile)(python, args, { cwd: folder })
}
