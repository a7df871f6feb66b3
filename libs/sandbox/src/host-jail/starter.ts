/**
 * Starts the first process of sandboxes without a fork of this process, which would copy the worker's page
 * tables and block it for 8 ms per sandbox (measured at 150 MiB). A small Python process (starter.py) forks
 * instead, with sockets that existed before it.
 *
 *   none ──first start──▶ serving ──channels used up, or no answer──▶ draining ──last process ended──▶ gone
 *
 * While one drains, another one serves. A draining one that is silent for a minute is killed. If one dies,
 * the kernel sends SIGKILL to the processes that it started and that asked for this (bwrap's
 * --die-with-parent).
 */
import { spawn, type ChildProcess } from 'node:child_process'
import type { Readable } from 'node:stream'
import { createInterface } from 'node:readline'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { Socket } from 'node:net'
import { inTime, SURROUNDINGS } from '@cofferdam/contract'
import { JailChild, type JailProcess } from './jail-process.ts'
import type { DropTo } from './rung.ts'

/** Sandboxes per helper. They share the cost of starting it, 10 ms of CPU. Each takes two descriptors. */
const CHANNELS = 32
/** A start takes a millisecond, on a swapping host a thousand times that. */
const ANSWER_MS = 10_000
/** A helper that is silent for this long after it was given up counts as hung, and is killed. */
const HUNG_MS = 60_000

export interface StartCommand {
  argv: readonly [string, ...string[]]
  env: Record<string, string>
  user: DropTo | null
  /** File that the process reads on fd 4. */
  filter?: string
}

export interface StartedProcess {
  child: JailProcess
  /** What the process writes on fd 3. */
  info: Readable
}

export interface Starter {
  /** Rejects if the process cannot be created. A missing command ends with code 127 instead. */
  start(command: StartCommand): Promise<StartedProcess>
  /**
   * Ends the starter, and with it the processes that asked the kernel for a signal at their parent's death.
   * `start` works again afterwards.
   */
  close(): Promise<void>
}

/**
 * Nothing runs before the first `start`. `python` is 3.8 or newer. `needed`: all host paths that the
 * processes open. If the helper may do so, it hides mounts that have none of these paths. If `needed` is
 * empty, all mounts stay. A start that takes longer than `answerMs` rejects.
 */
export function createStarter(python: string, needed: readonly string[] = [], answerMs = ANSWER_MS): Starter {
  const serving = new Set<Helper>()
  let current: Helper | null = null
  return {
    async start(command) {
      if (current === null || !current.hasRoom) {
        const helper = new Helper(python, needed, () => serving.delete(helper))
        serving.add(helper)
        current = helper
      }
      return await current.start(command, answerMs)
    },
    async close() {
      current = null
      await Promise.all([...serving].map((helper) => helper.end()))
    },
  }
}

/** One starter.py and its processes. */
class Helper {
  readonly #child: ChildProcess
  readonly #gone: Promise<void>
  readonly #started = new Map<number, JailChild>()
  #next = 0
  #isOver = false
  /** Timer that kills the helper HUNG_MS after it was given up. The helper's next answer stops the timer. */
  #hung: NodeJS.Timeout | null = null
  #isGivenUp = false

  constructor(python: string, needed: readonly string[], onGone: () => void) {
    const script = fileURLToPath(new URL('starter.py', import.meta.url))
    this.#child = spawn(python, ['-I', '-S', script, String(SURROUNDINGS.openFiles), ...needed], {
      stdio: ['pipe', 'pipe', 'ignore', ...Array<'pipe'>(CHANNELS).fill('pipe')],
      env: {},
      cwd: '/',
    })
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#gone = promise
    const over = (): void => {
      this.#isOver = true
      clearTimeout(this.#hung ?? undefined)
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
    // A helper without processes does not keep the worker running. The channels of its processes do.
    this.#child.unref()
    for (const stream of this.#child.stdio) (stream as Socket | null)?.unref()
  }

  get hasRoom(): boolean {
    return !this.#isOver && !this.#isGivenUp && this.#next < CHANNELS
  }

  async start({ argv, env, user, filter = '' }: StartCommand, answerMs: number): Promise<StartedProcess> {
    const channel = this.#next++
    const socket = this.#child.stdio[3 + channel] as Socket
    socket.ref()
    const started = new JailChild(socket, () => this.#ask(['kill', channel]))
    this.#started.set(channel, started)
    const variables = Object.entries(env).map((pair) => pair.join('='))
    const who = [user?.uid ?? -1, user?.gid ?? -1]
    this.#ask(['start', channel, ...who, filter, argv.length, ...argv, ...variables])
    await inTime(started.known, answerMs, () => this.#giveUp(channel, started))
    return { child: started, info: started.info }
  }

  /** Sends the helper no more starts. Its processes continue, so that a slow host harms no execution. */
  #giveUp(channel: number, late: JailChild): Error {
    this.#isGivenUp = true
    this.#hung ??= setTimeout(() => this.#child.kill('SIGKILL'), HUNG_MS).unref()
    const error = new Error('the process that starts sandboxes does not answer')
    late.failed(error)
    // The helper handles requests in order. If it still starts the process, this kills it at once.
    this.#ask(['kill', channel])
    return error
  }

  #ask(fields: readonly (string | number)[]): void {
    const body = Buffer.from(fields.join('\0'))
    const head = Buffer.alloc(4)
    head.writeUInt32LE(body.length)
    this.#child.stdin?.write(Buffer.concat([head, body]))
  }

  #hear(line: string): void {
    clearTimeout(this.#hung ?? undefined)
    this.#hung = null
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
    // The helper gets no more starts.
    if (this.#started.size === 0 && !this.hasRoom) void this.end()
  }

  async end(): Promise<void> {
    if (this.#child.pid === undefined) return
    this.#child.ref()
    this.#child.stdin?.end()
    // A hung helper would not notice that its stdin has ended.
    if (this.#hung !== null) this.#child.kill('SIGKILL')
    await this.#gone
  }
}

const nameOf = (number: number): string | null =>
  Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? null
