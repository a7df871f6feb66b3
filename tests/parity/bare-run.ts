/**
 * Runs a program without us, in a throw-away sandbox of the same shape as the backend's, because third-party
 * programs never run on the host itself. `launch.py` is PID 1 there and reports the kernel's wait status.
 */
import { spawn } from 'node:child_process'
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  lstatSync,
  rmSync,
  writeFileSync,
  chmodSync,
} from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Language } from '@cofferdam/contract'
import { bwrapLimits, LIMITS, PYTHON } from './run-limits.ts'

/** What was seen of one run, bare or through a backend. */
export interface Ran {
  exitCode: number | null
  signal: string | null
  stdout: Buffer
  stderr: Buffer
  timedOut: boolean
}

export interface TestProgram {
  language: Language
  source: string
  stdin?: string
  argv?: readonly string[]
}

export interface BareRunner extends Disposable {
  run(program: TestProgram, timeoutMs: number): Promise<Ran>
}

/** Where a bare run happens: bubblewrap like the `process` backend, or the `docker` backend's image. */
export type BarePlace = { kind: 'bwrap' } | { kind: 'docker'; image: string }

const LAUNCHER = readFileSync(new URL('launch.py', import.meta.url), 'utf8')
const MARK = Buffer.from('\n\0wait status ')
const NOBODY = 65_534
/** More than the executor reads, so that endless output also ends here. */
const OUTPUT_MAX = 20 * 1024 * 1024
const NODE = '/opt/node/bin/node'
const ETC = {
  passwd: 'root:x:0:0:root:/:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n',
  group: 'root:x:0:\nnogroup:x:65534:\n',
  hosts: '127.0.0.1 localhost\n::1 localhost\n',
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
}
/** Interpreter paths (libs/sandbox/src/process/bwrap.ts, libs/sandbox/agent/cofferdam_agent/options.py). */
const PATHS = {
  bwrap: '/opt/node/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin',
  docker: '/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin',
}
/** The environment that the executor gives every program (libs/executor/src/environment.ts). */
const ENV = {
  HOME: '/tmp',
  LANG: 'C.UTF-8',
  TMPDIR: '/tmp',
  TZ: 'UTC',
}
const ENTRIES = { python: 'main.py', javascript: 'main.js', typescript: 'main.ts', bash: 'main.sh' } as const

/** Creates a runner. Disposing removes its files. */
export function createBareRunner(place: BarePlace): BareRunner {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-parity-'))
  chmodSync(folder, 0o755)
  for (const [name, text] of Object.entries(ETC)) writeFileSync(join(folder, name), text)
  const isRoot = process.getuid?.() === 0
  const [command = '', ...args] = place.kind === 'bwrap' ? bwrapCommand(folder) : dockerCommand(place.image)
  const python = place.kind === 'bwrap' ? PYTHON : 'python3'
  const node = place.kind === 'bwrap' ? NODE : 'node'
  const commands = { python, javascript: node, typescript: node, bash: 'bash' }
  return {
    run({ language, source, stdin, argv = [] }, timeoutMs) {
      const entry = ENTRIES[language]
      const job = JSON.stringify({
        entry,
        source,
        argv: [commands[language], entry, ...argv],
        env: { PATH: PATHS[place.kind], ...ENV },
        stdin: stdin ?? null,
        rlimits: place.kind === 'bwrap' ? bwrapLimits : { core: 0 },
      })
      const child = spawn(command, [...args, python, '-I', '-S', '-c', LAUNCHER], {
        stdio: ['pipe', 'pipe', 'pipe'],
        cwd: '/',
        env: place.kind === 'bwrap' ? {} : { PATH: process.env['PATH'] },
        ...(isRoot && place.kind === 'bwrap' ? { uid: NOBODY, gid: NOBODY } : {}),
      })
      child.stdin.on('error', () => {})
      child.stdin.end(job)
      return collect(child, timeoutMs)
    },
    [Symbol.dispose]() {
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function collect(child: ReturnType<typeof spawn>, timeoutMs: number): Promise<Ran> {
  const seen = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  let size = 0
  let timedOut = false
  for (const name of ['stdout', 'stderr'] as const)
    child[name]?.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size > OUTPUT_MAX) child.kill('SIGKILL')
      else seen[name].push(chunk)
    })
  const timer = setTimeout(() => {
    timedOut = true
    child.kill('SIGKILL')
  }, timeoutMs)
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', () => {
      clearTimeout(timer)
      const stdout = Buffer.concat(seen.stdout)
      const all = Buffer.concat(seen.stderr)
      const at = all.lastIndexOf(MARK)
      if (at === -1) {
        if (timedOut || size > OUTPUT_MAX)
          resolve({ exitCode: null, signal: null, stdout, stderr: all, timedOut: true })
        else reject(new Error(`the bare sandbox broke: ${all.subarray(-400).toString('utf8')}`))
        return
      }
      const status = Number(all.subarray(at + MARK.length).toString('latin1'))
      resolve({ ...decodeStatus(status), stdout, stderr: all.subarray(0, at), timedOut })
    })
  })
}

/** See wait(2): the low seven bits are the signal, the second byte is the code. */
function decodeStatus(status: number): { exitCode: number | null; signal: string | null } {
  const number = status & 0x7f
  if (number === 0) return { exitCode: (status >> 8) & 0xff, signal: null }
  const found = Object.entries(constants.signals).find(([, value]) => value === number)
  return { exitCode: null, signal: found?.[0] ?? `SIG${number}` }
}

/** The shape of libs/sandbox/src/process/bwrap.ts, without its agent and its seccomp filter. */
function bwrapCommand(etc: string): string[] {
  const args = ['--unshare-all', '--die-with-parent', '--new-session', '--as-pid-1', '--cap-drop', 'ALL']
  args.push('--clearenv', '--hostname', 'sandbox', '--uid', String(NOBODY), '--gid', String(NOBODY))
  args.push('--ro-bind', '/usr', '/usr')
  for (const name of ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']) {
    const found = lstatSync(name, { throwIfNoEntry: false })
    if (found?.isSymbolicLink() === true) args.push('--symlink', readlinkSync(name), name)
    else if (found !== undefined) args.push('--ro-bind', name, name)
  }
  for (const name of [
    'ld.so.cache',
    'alternatives',
    'localtime',
    'mime.types',
    'ssl/openssl.cnf',
    'ssl/certs',
    ...readdirSync('/etc').filter((name) => /^python3\.\d+$/.test(name)),
  ])
    args.push('--ro-bind-try', `/etc/${name}`, `/etc/${name}`)
  for (const name of Object.keys(ETC)) args.push('--ro-bind', join(etc, name), `/etc/${name}`)
  args.push('--ro-bind', process.execPath, NODE, '--proc', '/proc', '--dev', '/dev')
  args.push(
    '--perms',
    '1777',
    '--size',
    String(16 * 1024 * 1024),
    '--tmpfs',
    '/dev/shm',
    '--remount-ro',
    '/dev',
  )
  args.push('--perms', '1777', '--size', String(LIMITS.disk_mib * 1024 * 1024), '--tmpfs', '/tmp')
  return ['/usr/bin/bwrap', ...args, '--remount-ro', '/', '--chdir', '/tmp', '--']
}

/** The shape of libs/sandbox/src/docker/container-options.ts. */
function dockerCommand(image: string): string[] {
  const args = ['run', '--rm', '-i', '--network', 'none', '--hostname', 'sandbox', '--read-only']
  args.push('--user', `${NOBODY}:${NOBODY}`, '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges')
  args.push('--tmpfs', `/tmp:rw,exec,nosuid,nodev,size=${LIMITS.disk_mib}m,mode=1777`, '--shm-size', '16m')
  args.push('--pids-limit', String(LIMITS.pids), '--memory', `${LIMITS.memory_mib}m`)
  args.push('--ulimit', 'nofile=4096:4096', '--ulimit', 'core=0', '--entrypoint', '')
  return ['docker', ...args, image]
}
