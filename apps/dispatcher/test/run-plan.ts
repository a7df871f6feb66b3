/**
 * For tests. Runs plans on this host as the agent of a sandbox does: all scripts in one shell
 * (libs/sandbox/agent/bash-gate/session.sh), and each command in a separate process.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, openSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  exitStatusOf,
  limitsSchema,
  resultSchema,
  type Ending,
  type ExecutionResult,
} from '@cofferdam/contract'
import type { ToolAnswer, ToolPlan } from '../src/tools/tool.ts'

const SESSION = fileURLToPath(new URL('../../../libs/sandbox/agent/bash-gate/session.sh', import.meta.url))

/** The interpreter itself, because the command may be a slow script that looks for it. */
const PYTHON = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], {
  encoding: 'utf8',
}).trim()

/** A result as an executor composes it. */
export function resultWith(changes: Partial<ExecutionResult>): ExecutionResult {
  const ending: Ending = changes.ending ?? 'ok'
  return resultSchema.parse({
    ok: ending === 'ok',
    execution_id: 'exe_0123456789ab70008000000000000000',
    attempt: 1,
    exit_status: exitStatusOf(ending),
    ending,
    exit_code: 0,
    signal: null,
    stdout: '',
    stderr: '',
    stdout_bytes: Buffer.byteLength(changes.stdout ?? ''),
    stderr_bytes: Buffer.byteLength(changes.stderr ?? ''),
    stdout_truncated: false,
    stderr_truncated: false,
    duration_ms: 5,
    queue_ms: 1,
    usage: null,
    artifacts: [],
    backend: 'process',
    isolation: null,
    trace_id: null,
    caps: null,
    ...changes,
  })
}

interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  timedOut: boolean
  stdout: Buffer
  stderr: Buffer
}

function resultOf({ code, signal, timedOut, stdout, stderr }: Ended, plan: ToolPlan): ExecutionResult {
  const limits = limitsSchema.parse(plan.limits)
  const out = stdout.subarray(0, limits.stdout_bytes)
  const err = stderr.subarray(Math.max(0, stderr.length - limits.stderr_bytes))
  const ending = timedOut ? 'hard_timeout' : signal !== null ? 'crashed' : code === 0 ? 'ok' : 'error'
  return resultWith({
    ending,
    exit_code: code,
    signal,
    stdout: out.toString(),
    stderr: err.toString(),
    stdout_bytes: stdout.length,
    stderr_bytes: stderr.length,
    stdout_truncated: out.length < stdout.length,
    stderr_truncated: err.length < stderr.length,
  })
}

/**
 * A session's shell, which runs in `workdir`, and its commands, which run in `own`, where scripts and the
 * shell's output are stored too.
 */
export class Session implements AsyncDisposable {
  #shell: ChildProcess | null = null
  readonly #workdir: string
  readonly #own: string

  constructor(workdir: string, own: string) {
    this.#workdir = workdir
    this.#own = own
    mkdirSync(own, { recursive: true })
  }

  async answer(plan: ToolPlan): Promise<ToolAnswer> {
    if (plan.before !== undefined) await this.run({ ...plan, program: plan.before })
    return plan.answer(await this.run(plan))
  }

  async run(plan: ToolPlan): Promise<ExecutionResult> {
    const { program } = plan
    if (program.type === 'script') return resultOf(await this.#script(program.source, deadline(plan)), plan)
    if (program.type !== 'command' || program.argv === undefined) throw new Error('not a program of a tool')
    return resultOf(await this.#command(program.argv, plan), plan)
  }

  async #command([file = '', ...args]: readonly string[], plan: ToolPlan): Promise<Ended> {
    const child = spawn(file === 'python3' ? PYTHON : file, args, {
      cwd: this.#own,
      stdio: ['pipe', 'pipe', 'pipe'],
      detached: true,
    })
    const parts = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
    child.stdout.on('data', (data: Buffer) => parts.stdout.push(data))
    child.stderr.on('data', (data: Buffer) => parts.stderr.push(data))
    child.stdin.on('error', () => {})
    child.stdin.end(plan.stdin ?? '')
    const { code, signal, timedOut } = await ended(child, deadline(plan), once(child, 'close'))
    return {
      code,
      signal,
      timedOut,
      stdout: Buffer.concat(parts.stdout),
      stderr: Buffer.concat(parts.stderr),
    }
  }

  async #script(source: string, timeoutMs: number): Promise<Ended> {
    const [out, err, entry] = ['stdout', 'stderr', 'main.sh'].map((name) => join(this.#own, name)) as [
      string,
      string,
      string,
    ]
    writeFileSync(entry, source)
    if (this.#shell === null) for (const path of [out, err]) writeFileSync(path, '')
    for (const path of [out, err]) truncateSync(path, 0)
    const shell = (this.#shell ??= this.#start(out, err))
    const [, , , commands, reports] = shell.stdio as unknown as [
      null,
      null,
      null,
      NodeJS.WritableStream,
      NodeJS.ReadableStream,
    ]
    const settled = new AbortController()
    const { signal } = settled
    // The shell reports `D` and the exit status of a script that did not end the shell.
    const reported = once(reports, 'data', { signal }).then(([data]) => [Number(String(data).slice(1)), null])
    const exited = once(shell, 'exit', { signal })
    // Three fields: no input, the script, and no arguments.
    commands.write(`3\0\0${entry}\0${'0'}\0`)
    const end = await ended(shell, timeoutMs, Promise.race([reported, exited]))
    settled.abort()
    await Promise.allSettled([reported, exited])
    if (end.timedOut || shell.exitCode !== null || shell.signalCode !== null) this.#shell = null
    return { ...end, stdout: readFileSync(out), stderr: readFileSync(err) }
  }

  #start(out: string, err: string): ChildProcess {
    const files = [openSync(out, 'a'), openSync(err, 'a')] as const
    const shell = spawn(
      'bash',
      ['-c', 'exec 198<&3 199>&4 3<&- 4>&-; exec bash --norc --noprofile "$0"', SESSION],
      { cwd: this.#workdir, stdio: ['ignore', ...files, 'pipe', 'pipe'], detached: true },
    )
    shell.stdio[3]?.on('error', () => {})
    for (const fd of files) closeSync(fd)
    return shell
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const shell = this.#shell
    if (shell?.pid === undefined) return
    const exited = once(shell, 'exit')
    kill(shell.pid)
    if (shell.exitCode === null && shell.signalCode === null) await exited
  }
}

const deadline = (plan: ToolPlan): number => plan.limits.hard_timeout_ms ?? 30_000

async function ended(child: ChildProcess, timeoutMs: number, end: Promise<unknown[]>) {
  let timedOut = false
  const timer = setTimeout(() => {
    timedOut = true
    if (child.pid !== undefined) kill(child.pid)
  }, timeoutMs)
  const [code, signal] = (await end) as [number | null, NodeJS.Signals | null]
  clearTimeout(timer)
  return { code, signal, timedOut }
}

function kill(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // It has ended already.
  }
}
