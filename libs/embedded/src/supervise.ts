/**
 * One child server process, from spawn to exit.
 *
 *   starting ──ready()──> running ──stop──> stopping ──exit──> ended
 *       └────────── exit before ready: ready() rejects with the last lines ──────────┘
 *
 * The server has its own session, so a terminal's Ctrl-C reaches only this process, which stops the server
 * after its own drain. If this process is killed, the server dies too, through `setpriv --pdeathsig`. Linux
 * sends that signal when the *thread* that spawned the server ends, so spawn it from the main thread. Without
 * `setpriv`, the next start in the same directory stops the orphan (claim-directory.ts).
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { EmbeddedServerError } from './embedded-server-error.ts'
import type { RunningServer } from './running-server.ts'

/** Lines kept for a start error. A Postgres configuration error has about 5, a crash report about 20. */
const KEPT_LINES = 30
/** A line is shorter than this unless it quotes a statement. */
const KEPT_LINE_LENGTH = 1000

export interface Command {
  argv: readonly [string, ...string[]]
  env?: Record<string, string>
  cwd?: string
  uid?: number
  gid?: number
  /** Gives the child a stdin pipe, which closes when this process ends. Default: no stdin. */
  stdin?: 'pipe'
}

export interface Supervised {
  readonly pid: number
  readonly exited: Promise<string>
  /** Polls until `isReady`. Throws `start_failed` when the server ends first or the deadline passes. */
  ready(isReady: () => Promise<boolean>, deadlineMs: number): Promise<void>
  /** Closes the stdin pipe, as the kernel does when this process ends. */
  closeStdin(): void
  /** Sends the signals in order and waits up to `graceMs` after each. The last must be SIGKILL. */
  stop(signals: readonly NodeJS.Signals[], graceMs: number): Promise<void>
}

/** Spawns the server. Throws `start_failed` when the program cannot be executed. */
export async function supervise(
  what: string,
  command: Command,
  log: (line: string) => void,
): Promise<Supervised> {
  const [file, ...args] = command.argv
  const child = spawn(file, args, {
    detached: true,
    stdio: [command.stdin ?? 'ignore', 'pipe', 'pipe'],
    ...(command.env === undefined ? {} : { env: command.env }),
    ...(command.cwd === undefined ? {} : { cwd: command.cwd }),
    ...(command.uid === undefined ? {} : { uid: command.uid }),
    ...(command.gid === undefined ? {} : { gid: command.gid }),
  })
  const lines: string[] = []
  const keep = (line: string): void => {
    lines.push(line.slice(0, KEPT_LINE_LENGTH))
    if (lines.length > KEPT_LINES) lines.shift()
    log(line)
  }
  for (const stream of [child.stdout, child.stderr]) readLines(stream, keep)
  const exited = endOf(child)
  const pid = await spawned(what, child)
  // The server must not keep this process alive.
  child.unref()
  let ended: string | null = null
  void exited.then((reason) => (ended = reason))

  return {
    pid,
    exited,
    async ready(isReady, deadlineMs) {
      const until = Date.now() + deadlineMs
      while (!(await isReady())) {
        if (ended !== null) throw startFailed(what, ended, lines)
        if (Date.now() > until) throw startFailed(what, `not ready after ${deadlineMs} ms`, lines)
        await delay(5)
      }
    },
    closeStdin: () => void child.stdin?.end(),
    async stop(signals, graceMs) {
      child.ref()
      for (const name of signals) {
        if (ended !== null) return
        child.kill(name)
        await endsWithin(exited, graceMs)
      }
      await exited
    },
  }
}

/** What a launcher returns for a ready server. `stop` calls `cleanUp` once, after the server has ended. */
export function runningServer(
  server: Supervised,
  url: string,
  how: string,
  end: { signals: readonly NodeJS.Signals[]; graceMs: number; cleanUp(): void },
): RunningServer {
  let stopping: Promise<void> | null = null
  return {
    url,
    how,
    pid: server.pid,
    exited: server.exited,
    stop() {
      stopping ??= server.stop(end.signals, end.graceMs).finally(() => end.cleanUp())
      return stopping
    },
  }
}

async function endsWithin(exited: Promise<string>, graceMs: number): Promise<void> {
  const timer = new AbortController()
  const grace = delay(graceMs, undefined, { signal: timer.signal }).catch(() => undefined)
  await Promise.race([exited, grace])
  timer.abort()
}

function startFailed(what: string, why: string, lines: readonly string[]): EmbeddedServerError {
  const said = lines.length === 0 ? '' : ` Its last lines:\n${lines.join('\n')}`
  return new EmbeddedServerError('start_failed', `${what} did not start: ${why}.${said}`)
}

function readLines(stream: Readable | null, keep: (line: string) => void): void {
  if (stream === null) return
  if (stream instanceof Socket) stream.unref()
  createInterface({ input: stream, crlfDelay: Infinity }).on('line', keep)
}

function endOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('exit', (code, signal) =>
      resolve(signal === null ? `exited with code ${code}` : `killed by ${signal}`),
    )
    child.once('error', (error) => resolve(error.message))
  })
}

function spawned(what: string, child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once('spawn', () => resolve(child.pid ?? 0))
    child.once('error', (error) =>
      reject(
        new EmbeddedServerError('start_failed', `${what} could not be executed: ${error.message}`, error),
      ),
    )
  })
}
