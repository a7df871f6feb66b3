/** A misbehaving sandbox around a well-behaved one. */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  CofferdamError,
  type Entry,
  type Exit,
  type Isolation,
  type Program,
  type ProgramFile,
  type RunIo,
  type Sandbox,
  type SandboxRef,
  type Usage,
} from '@cofferdam/contract'
import type { HostileTricks } from './config.ts'

export class HostileSandbox implements Sandbox {
  readonly id: Sandbox['id']
  readonly ref: SandboxRef
  readonly isolation: Isolation
  readonly warm: boolean
  readonly session = null
  readonly #inner: Sandbox
  readonly #tricks: HostileTricks
  readonly #gone = new AbortController()

  constructor(backend: string, inner: Sandbox, tricks: HostileTricks) {
    this.id = inner.id
    this.ref = { ...inner.ref, backend }
    this.isolation = inner.isolation
    this.warm = inner.warm
    this.#inner = inner
    this.#tricks = tricks
  }

  async run(program: Program, io: RunIo): Promise<Exit> {
    const tricks = this.#tricks
    await this.#flood(io)
    if (tricks.run === 'hangs') return this.#forever(io.signal)
    if (tricks.run !== undefined) return this.#dieDuring(program, io)
    const exit = await this.#inner.run(program, this.#crumbled(io))
    await this.#pause(tricks.exit_late_ms, io.signal)
    return this.#bend(exit, io)
  }

  async interrupt(): Promise<void> {
    if (this.#tricks.deaf_to_interrupt !== true) await this.#inner.interrupt()
  }

  async write(files: readonly ProgramFile[]): Promise<void> {
    await this.#filesTrick()
    await this.#inner.write(files)
  }

  async read(path: string, maxBytes: number): Promise<Uint8Array> {
    await this.#filesTrick()
    if (this.#tricks.files_lie === true) return new Uint8Array(maxBytes + 1)
    return this.#inner.read(path, maxBytes)
  }

  async list(globs: readonly string[], maxEntries: number): Promise<Entry[]> {
    await this.#filesTrick()
    const entries = await this.#inner.list(globs, maxEntries)
    if (this.#tricks.files_lie !== true) return entries
    const lie = [
      { path: '../../etc/passwd', size: -1 },
      { path: '/etc/shadow', size: 1e300 },
    ]
    return [...lie, ...entries]
  }

  async remove(path: string): Promise<void> {
    await this.#filesTrick()
    await this.#inner.remove(path)
  }

  usage(): Promise<Usage> {
    return this.#inner.usage()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#tricks.dispose_slow_ms !== undefined) await sleep(this.#tricks.dispose_slow_ms)
    this.#gone.abort(new CofferdamError('sandbox_lost', 'The hostile sandbox was destroyed.'))
    await this.#inner[Symbol.asyncDispose]()
    if (this.#tricks.dispose_throws === true) throw new Error('hostile: dispose failed after the fact')
  }

  /** Ignores backpressure and the output limit on purpose: it calls `onOutput` without waiting. */
  async #flood(io: RunIo): Promise<void> {
    const total = this.#tricks.flood_bytes ?? 0
    // 64 KiB: the largest frame of the guest protocol.
    for (let sent = 0; sent < total && !io.signal.aborted; sent += 65_536)
      void Promise.resolve(io.onOutput('stdout', Buffer.alloc(Math.min(65_536, total - sent), 'x'))).catch(
        () => {},
      )
  }

  async #forever(signal: AbortSignal): Promise<never> {
    const either = AbortSignal.any([this.#gone.signal, signal])
    // The longest possible timer keeps the process alive, as a real channel would. Only an abort ends the
    // wait.
    while (!either.aborted) await sleep(2_147_483_647, undefined, { signal: either }).catch(() => {})
    throw either.reason
  }

  async #dieDuring(program: Program, io: RunIo): Promise<never> {
    const firstOutput = Promise.withResolvers<void>()
    const ended = this.#inner.run(program, {
      ...io,
      onOutput: async (stream, chunk) => {
        await io.onOutput(stream, chunk)
        firstOutput.resolve()
      },
    })
    await Promise.race([firstOutput.promise, ended.then(() => {})])
    await this.#inner[Symbol.asyncDispose]()
    await ended.catch(() => {})
    if (this.#tricks.run === 'throws_foreign') throw new TypeError('hostile: something inside broke')
    if (this.#tricks.run === 'violates_protocol')
      throw new CofferdamError('protocol_violation', 'hostile: a frame of type 0xff')
    throw new CofferdamError('sandbox_lost', 'hostile: the channel closed while the program ran')
  }

  #crumbled(io: RunIo): RunIo {
    if (this.#tricks.crumbles_output !== true) return io
    return {
      ...io,
      onOutput: async (stream, chunk) => {
        for (let at = 0; at < chunk.length; at += 1) await io.onOutput(stream, chunk.subarray(at, at + 1))
      },
    }
  }

  #bend(exit: Exit, io: RunIo): Exit {
    switch (this.#tricks.exit) {
      case undefined:
        return exit
      case 'lies_about_bytes':
        return {
          ...exit,
          outputBytes: { stdout: -1, stderr: Number.MAX_SAFE_INTEGER + 1 },
          outputDropped: { stdout: false, stderr: true },
        }
      case 'lies_about_exit':
        return {
          ...exit,
          exitCode: 99_999,
          signal: 'SIGNOTHING',
          oomKills: -1,
          usage: {
            cpu_ms: -5,
            peak_memory_bytes: Number.NaN,
            read_bytes: -1,
            write_bytes: 0.5,
            pids_peak: -3,
            disk_bytes: Number.POSITIVE_INFINITY,
            wall_ms: -1,
          },
          valueJson: '{"not json',
          serviceExecutionTime: Number.NaN,
        }
      case 'talks_after_exit':
        setImmediate(() => {
          void Promise.resolve(io.onOutput('stdout', Buffer.from('after the end\n'))).catch(() => {})
        })
        return exit
    }
  }

  async #filesTrick(): Promise<void> {
    if (this.#tricks.files === 'fails')
      throw new CofferdamError('sandbox_lost', 'hostile: the channel closed')
    if (this.#tricks.files === 'hangs') await this.#forever(this.#gone.signal)
  }

  async #pause(ms: number | undefined, signal: AbortSignal): Promise<void> {
    if (ms === undefined) return
    const either = AbortSignal.any([this.#gone.signal, signal])
    await sleep(ms, undefined, { signal: either }).catch(() => either.throwIfAborted())
  }
}
