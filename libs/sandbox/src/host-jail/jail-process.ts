/** A process started by starter.py, presented like a child of this process. */
import { EventEmitter } from 'node:events'
import { PassThrough, type Duplex, type Readable, type Writable } from 'node:stream'

/** A process started by the starter or by Node: `ChildProcess` is one. */
export interface JailProcess extends EventEmitter<{ exit: [number | null, string | null]; error: [Error] }> {
  readonly pid?: number | undefined
  readonly stdin: Writable | null
  readonly stdout: Readable | null
  readonly stderr: Readable | null
  readonly exitCode: number | null
  readonly signalCode: string | null
  kill(signal: 'SIGKILL'): boolean
}

/** A process that a helper started. Its pid is set when `known` resolves. */
export class JailChild
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

  /**
   * The parent sends the kill. It has not reaped the process, so the pid cannot belong to another process
   * yet.
   */
  kill(): boolean {
    this.#kill()
    return this.exitCode === null && this.signalCode === null
  }
}
