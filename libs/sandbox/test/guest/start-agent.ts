/** Starts a real agent as a child of the test, and the bare run to compare with. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Exit, Language, Program, ProgramFile, RunIo } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import {
  agentArgv,
  createGuestSession,
  installGuest,
  languageOf,
  sharedStart,
} from '../../src/guest/index.ts'
import type { AgentOptions, GuestSession } from '../../src/guest/index.ts'

/**
 * COFFERDAM_TEST_PYTHON selects another Python: our python-gate depends on how CPython starts, which varies.
 */
export const PYTHON = process.env['COFFERDAM_TEST_PYTHON'] ?? '/usr/bin/python3'
/**
 * A user that owns nothing on a usual host, and a different one for each concurrent test run. It is not
 * `nobody`: a Postgres of other tests may run as that user. A cell in the host's namespaces would take the
 * shared memory of that Postgres for leftovers.
 */
export const PROGRAM_UID = 1_800_000_000 + process.pid
const BASE_ENV: Record<string, string> = {
  PATH: '/usr/local/bin:/usr/bin:/bin',
  HOME: '/tmp',
  LANG: 'C.UTF-8',
  TMPDIR: '/tmp',
  TZ: 'UTC',
  // A Python built elsewhere needs its own library.
  ...(PYTHON === '/usr/bin/python3' ? {} : { LD_LIBRARY_PATH: join(dirname(dirname(PYTHON)), 'lib') }),
}

export interface Ran {
  exit: Exit
  stdout: string
  stderr: string
}

export interface Agent {
  child: ChildProcess
  session: GuestSession
  work: string
  run(
    program: Program,
    io?: Partial<RunIo>,
    env?: Record<string, string>,
    options?: { keepInterpreter?: boolean; keepProcesses?: boolean },
  ): Promise<Ran>
}

/**
 * How a Python program gets its interpreter: by a start of its own, by a fork in a cell, or by a fork of the
 * agent's process.
 */
export type Way = 'alone' | 'cell' | 'shared'

export interface Lab {
  /** Folder of the guest's files, used by no other test file. */
  readonly guestDir: string
  /** A fresh folder that the program's user owns. */
  folder(): string
  /** `within`: a command that runs the agent's command (unshare, setpriv, …). */
  start(
    language: Language | 'none',
    options?: Partial<AgentOptions> & { within?: readonly string[]; proxyPort?: number },
  ): Promise<Agent>
  /** Starts Python once for agent and interpreter, as PID 1 of a namespace, without privileges. */
  startShared(options?: Partial<AgentOptions> & { variables?: Record<string, string> }): Promise<Agent>
  /** Starts, writes, runs, stops. */
  once(
    program: Program,
    options?: { files?: ProgramFile[]; stdin?: string; work?: string; way?: Way },
  ): Promise<Ran>
  /** Runs a script without the agent, to compare. */
  bare(program: Program, options?: { files?: ProgramFile[]; stdin?: string; work: string }): Promise<Bare>
  close(): Promise<void>
}
export interface Bare {
  exitCode: number | null
  signal: string | null
  stdout: string
  stderr: string
}

const isRoot = process.getuid?.() === 0
export const AS_PROGRAM = [`--reuid=${PROGRAM_UID}`, `--regid=${PROGRAM_UID}`, '--clear-groups']
/** Options for the program's user, if the agent may change its uid. */
export const programUser = isRoot ? { uid: PROGRAM_UID, gid: PROGRAM_UID } : {}
/**
 * Starts a command as PID 1 without privileges. If the test is not root, the command runs in a user namespace
 * without mapped users.
 */
const AS_INIT = [
  'unshare',
  ...(isRoot ? [] : ['--user']),
  ...'--pid --fork --mount --mount-proc --kill-child setpriv'.split(' '),
  ...(isRoot ? [...AS_PROGRAM, '--bounding-set=-all'] : []),
  '--no-new-privs',
]

/** Parts of this host that `startShared` needs. */
export const sharing = needs(isRoot ? 'mounts' : 'user-namespaces', 'setpriv')

/** Node.js where the program's user reaches it. A clone below /root is closed to other users. */
function reachableNode(folder: string): string {
  if (spawnSync('test', ['-x', process.execPath], programUser).status === 0) return process.execPath
  const copy = join(folder, 'node')
  copyFileSync(process.execPath, copy)
  return copy
}

/** Installs the guest files once for all tests of a file. */
export async function openLab(): Promise<Lab> {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'cofferdam-guest-')))
  chmodSync(root, 0o755)
  const guestDir = join(root, 'guest')
  await installGuest(guestDir, PYTHON)
  const node = reachableNode(root)
  let count = 0
  const agents = new Set<Agent>()

  function speakWith(child: ChildProcess, work: string, proxyPort?: number): Agent {
    const session = createGuestSession({
      readable: child.stdout!,
      writable: child.stdin!,
      ...(proxyPort === undefined ? {} : { proxyPort }),
    })
    const agent: Agent = {
      child,
      session,
      work,
      async run(program, io = {}, env = {}, runOptions = {}) {
        const seen = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] }
        const exit = await session.run(
          program,
          {
            maxOutputBytes: { stdout: 8 << 20, stderr: 8 << 20 },
            signal: new AbortController().signal,
            ...io,
            onOutput(stream, chunk) {
              seen[stream].push(Buffer.from(chunk))
              return io.onOutput?.(stream, chunk)
            },
          },
          env,
          runOptions,
        )
        const text = (chunks: Uint8Array[]): string => Buffer.concat(chunks).toString('utf8')
        return { exit, stdout: text(seen.stdout), stderr: text(seen.stderr) }
      },
    }
    agents.add(agent)
    return agent
  }

  const lab: Lab = {
    guestDir,
    folder() {
      const path = join(root, `w${count++}`)
      mkdirSync(path)
      if (isRoot) chownSync(path, PROGRAM_UID, PROGRAM_UID)
      return path
    },
    async start(language, { within = [], proxyPort, ...options } = {}) {
      const work = options.work ?? lab.folder()
      const argv = agentArgv({
        python: PYTHON,
        node,
        guestDir,
        language,
        env: BASE_ENV,
        ...programUser,
        ...options,
        work,
      })
      const [command, ...args] = [...within, ...argv]
      // fd 3 stands for a descriptor that a worker inherited and passes on. No program may see it.
      const stdio: ('pipe' | 'inherit' | 'ignore')[] = ['pipe', 'pipe', 'inherit', 'ignore']
      const child = spawn(command!, args, { stdio, env: {} })
      const agent = speakWith(child, work, proxyPort)
      if (options.hold !== true) await agent.session.ready()
      return agent
    },
    async startShared({ variables = {}, ...options } = {}) {
      const work = options.work ?? lab.folder()
      const common = {
        python: PYTHON,
        guestDir,
        language: 'python',
        env: BASE_ENV,
        ...options,
        work,
      } as const
      const start = sharedStart(common)!
      const child = spawn(AS_INIT[0]!, [...AS_INIT.slice(1), ...start.argv], {
        cwd: work,
        env: { ...start.env, ...variables },
        stdio: ['pipe', 'pipe', 'pipe', 'ignore'],
      })
      child.stderr!.pipe(process.stderr, { end: false })
      const agent = speakWith(child, work)
      agent.session.release(start.options)
      await agent.session.ready()
      return agent
    },
    async once(program, { files = [], stdin, work, way = 'alone' } = {}) {
      const place = work === undefined ? {} : { work }
      const agent = await (way === 'shared'
        ? lab.startShared(place)
        : lab.start(languageOf(program), { cell: way === 'cell', ...place }))
      try {
        await agent.session.write(files)
        return await agent.run(program, stdin === undefined ? {} : { stdin: Buffer.from(stdin) })
      } finally {
        await stop(agent)
        agents.delete(agent)
      }
    },
    bare(program, { files = [], stdin, work } = { work: lab.folder() }) {
      if (program.type !== 'script') throw new Error('only scripts')
      const [command, entry] = {
        python: [PYTHON, 'main.py'],
        javascript: [node, 'main.js'],
        typescript: [node, 'main.ts'],
        bash: ['bash', 'main.sh'],
      }[program.language] as [string, string]
      for (const file of [...files, { path: entry, bytes: Buffer.from(program.source) }]) {
        mkdirSync(dirname(join(work, file.path)), { recursive: true })
        writeFileSync(join(work, file.path), file.bytes)
        if (isRoot) chownSync(join(work, file.path), PROGRAM_UID, PROGRAM_UID)
      }
      const child = spawn(command, [entry, ...(program.argv ?? [])], {
        cwd: work,
        env: BASE_ENV,
        detached: true,
        stdio: [stdin === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
        ...programUser,
      })
      // A program may end without reading all input.
      child.stdin?.on('error', () => undefined)
      child.stdin?.end(stdin)
      const seen = { stdout: '', stderr: '' }
      child.stdout!.on('data', (chunk: Buffer) => (seen.stdout += chunk.toString('utf8')))
      child.stderr!.on('data', (chunk: Buffer) => (seen.stderr += chunk.toString('utf8')))
      return new Promise((resolve) =>
        child.on('close', (exitCode, signal) => resolve({ exitCode, signal, ...seen })),
      )
    },
    async close() {
      await Promise.all([...agents].map(stop))
      rmSync(root, { recursive: true, force: true })
    },
  }
  return lab
}

/** Closes the channel, which ends the agent and all its processes. */
export async function stop(agent: Agent): Promise<void> {
  agent.session.close()
  if (agent.child.exitCode === null && agent.child.signalCode === null)
    await new Promise((resolve) => agent.child.once('exit', resolve))
}
