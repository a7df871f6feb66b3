/**
 * Starts the first process of sandboxes without a fork of this process, which would copy the page tables of a worker: 8 ms of standing still
 * per sandbox at 150 MiB, measured. A small Python process (starter.py) forks instead, on sockets that exist before it does.
 *
 *   none ──first start──▶ serving ──all channels used──▶ draining ──its last process ended──▶ gone      another one serves meanwhile
 *                            │ died: what it had started gets SIGKILL from the kernel, every one of them ends here with SIGKILL
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { PassThrough, type Duplex, type Readable, type Writable } from 'node:stream'
import { createInterface } from 'node:readline'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { Socket } from 'node:net'
import type { DropTo } from './rung.ts'

/** Two descriptors each as long as it serves; its own start, 10 ms of CPU, is shared by as many. */
const CHANNELS = 32
/** A start takes a millisecond; on a host that swaps a thousand times that. */
const ANSWER_MS = 10_000

/** What there is to know of a process that the starter or Node itself has started: `ChildProcess` is one. */
export interface JailProcess extends EventEmitter<{ exit: [number | null, string | null]; error: [Error] }> {
  readonly pid?: number | undefined
  readonly stdin: Writable | null
  readonly stdout: Readable | null
  readonly stderr: Readable | null
  readonly exitCode: number | null
  readonly signalCode: string | null
  kill(signal: 'SIGKILL'): boolean
}

export interface StartCommand {
  argv: readonly [string, ...string[]]
  env: Record<string, string>
  user: DropTo | null
  /** File that the process reads on fd 4. */
  filter?: string
}

export interface StartedProcess {
  child: JailProcess
  /** What it writes on fd 3. */
  info: Readable
}

export interface Starter {
  /** Rejects when the process cannot be made; a command that is not there ends with code 127 instead. */
  start(command: StartCommand): Promise<StartedProcess>
  /** Ends the starter and with it whatever it started that asked for its parent's death. Another start begins a new one. */
  close(): Promise<void>
}

/** Creates one; nothing runs before its first `start`. `python` is 3.8 or newer. */
export function createStarter(python: string): Starter {
  const serving = new Set<Helper>()
  let current: Helper | null = null
  return {
    async start(command) {
      if (current === null || !current.hasRoom) {
        const helper = new Helper(python, () => serving.delete(helper))
        serving.add(helper)
        current = helper
      }
      return await current.start(command)
    },
    async close() {
      current = null
      await Promise.all([...serving].map((helper) => helper.end()))
    },
  }
}

/** One starter.py and what it has started. */
class Helper {
  readonly #child: ChildProcess
  readonly #gone: Promise<void>
  readonly #started = new Map<number, JailChild>()
  #next = 0
  #isOver = false

  constructor(python: string, onGone: () => void) {
    const script = fileURLToPath(new URL('starter.py', import.meta.url))
    this.#child = spawn(python, ['-I', '-S', script], {
      stdio: ['pipe', 'pipe', 'ignore', ...Array<'pipe'>(CHANNELS).fill('pipe')],
      env: {},
      cwd: '/',
    })
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#gone = promise
    const over = (): void => {
      this.#isOver = true
      for (const started of this.#started.values()) started.ended(null, 'SIGKILL')
      this.#started.clear()
      for (const unused of this.#child.stdio.slice(3 + this.#next)) unused?.destroy()
      onGone()
      resolve()
    }
    this.#child.once('exit', over)
    this.#child.once('error', over)
    this.#child.stdin?.on('error', () => {})
    if (this.#child.stdout !== null)
      createInterface({ input: this.#child.stdout }).on('line', (line) => this.#hear(line))
    // A waiting starter keeps nobody from ending; what it has started does, by its channel.
    this.#child.unref()
    for (const stream of this.#child.stdio) (stream as Socket | null)?.unref()
  }

  get hasRoom(): boolean {
    return !this.#isOver && this.#next < CHANNELS
  }

  async start({ argv, env, user, filter = '' }: StartCommand): Promise<StartedProcess> {
    const channel = this.#next++
    const socket = this.#child.stdio[3 + channel] as Socket
    socket.ref()
    const started = new JailChild(socket, () => this.#ask(['kill', channel]))
    this.#started.set(channel, started)
    const variables = Object.entries(env).map((pair) => pair.join('='))
    const who = [user?.uid ?? -1, user?.gid ?? -1]
    this.#ask(['start', channel, ...who, filter, argv.length, ...argv, ...variables])
    // One that does not answer will not serve the next start either.
    const stuck = setTimeout(() => this.#child.kill('SIGKILL'), ANSWER_MS)
    await started.known.finally(() => clearTimeout(stuck))
    return { child: started, info: started.info }
  }

  #ask(fields: readonly (string | number)[]): void {
    const body = Buffer.from(fields.join('\0'))
    const head = Buffer.alloc(4)
    head.writeUInt32LE(body.length)
    this.#child.stdin?.write(Buffer.concat([head, body]))
  }

  #hear(line: string): void {
    const [word, channel, ...rest] = line.split(' ')
    const started = this.#started.get(Number(channel))
    if (started === undefined) return
    if (word === 'started') started.begun(Number(rest[0]))
    else if (word === 'info') started.info.push(`${rest.join(' ')}\n`)
    else if (word === 'said') started.stderr.push(Buffer.from(rest[0] ?? '', 'hex'))
    else if (word === 'failed') started.failed(new Error(`no process: ${rest.join(' ')}`))
    else if (word === 'ended')
      started.ended(rest[0] === '-1' ? null : Number(rest[0]), nameOf(Number(rest[1])))
    if (word === 'ended' || word === 'failed') this.#forget(Number(channel))
  }

  #forget(channel: number): void {
    this.#started.delete(channel)
    // Used up: nobody asks it for more.
    if (this.#started.size === 0 && this.#next === CHANNELS) void this.end()
  }

  async end(): Promise<void> {
    if (this.#child.pid === undefined) return
    this.#child.ref()
    this.#child.stdin?.end()
    await this.#gone
  }
}

/** A process that a helper started; its pid is known when `known` resolves. */
class JailChild
  extends EventEmitter<{ exit: [number | null, string | null]; error: [Error] }>
  implements JailProcess
{
  readonly stdin: Duplex
  readonly stdout: Duplex
  readonly stderr = new PassThrough()
  readonly info = new PassThrough()
  readonly known: Promise<void>
  pid: number | undefined
  exitCode: number | null = null
  signalCode: string | null = null
  readonly #know: PromiseWithResolvers<void>
  readonly #kill: () => void

  constructor(channel: Duplex, kill: () => void) {
    super()
    this.stdin = this.stdout = channel
    this.#kill = kill
    this.#know = Promise.withResolvers<void>()
    this.known = this.#know.promise
  }

  begun(pid: number): void {
    this.pid = pid
    this.#know.resolve()
  }

  failed(error: Error): void {
    this.stdin.destroy()
    this.#know.reject(error)
  }

  ended(code: number | null, signal: string | null): void {
    if (this.exitCode !== null || this.signalCode !== null) return
    this.exitCode = code
    this.signalCode = signal
    this.#know.reject(new Error('the process that starts sandboxes has ended'))
    this.stderr.end()
    this.info.end()
    this.emit('exit', code, signal)
  }

  /** By the one who waits for it, so that no other process can have its number meanwhile. */
  kill(): boolean {
    this.#kill()
    return this.exitCode === null && this.signalCode === null
  }
}

const nameOf = (number: number): string | null =>
  Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? null
