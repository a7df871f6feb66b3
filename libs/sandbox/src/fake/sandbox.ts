/**
 * One fake sandbox.
 *
 *   open ──run──> running ──end──> open (session) | spent (job)
 *   any  ──dispose, kill, die──> gone: a pending run rejects with `sandbox_lost`, everything later throws it
 */
import {
  CofferdamError,
  unmeasuredUsage,
  type Entry,
  type Exit,
  type Isolation,
  type Program,
  type ProgramFile,
  type RunIo,
  type Sandbox,
  type SandboxRef,
  type SandboxSpec,
  type Usage,
} from '@cofferdam/contract'
import { BoundedOutput } from './bounded-output.ts'
import { interpret } from './interpret.ts'
import { MemoryFiles } from './memory-files.ts'
import { parseSteps } from './steps.ts'

export class FakeSandbox implements Sandbox {
  readonly id: SandboxSpec['sandboxId']
  readonly ref: SandboxRef
  readonly isolation: Isolation = 'none'
  readonly warm = false
  readonly session = null
  readonly #spec: SandboxSpec
  readonly #files = new MemoryFiles()
  readonly #onGone: () => void
  #isGone = false
  /** Of the current program. */
  #stop: AbortController | null = null
  #interrupt: AbortController | null = null
  #runs = 0
  #usage: Usage = unmeasuredUsage(0)

  constructor(backend: string, spec: SandboxSpec, onGone: () => void) {
    this.id = spec.sandboxId
    this.ref = { backend, id: spec.sandboxId, handle: { pid: process.pid } }
    this.#spec = spec
    this.#onGone = onGone
  }

  async run(program: Program, io: RunIo): Promise<Exit> {
    this.#assertAlive()
    if (this.#interrupt !== null)
      throw new CofferdamError('conflict', 'A program is running in this sandbox.')
    if (this.#spec.reuse === 'job' && this.#runs > 0)
      throw new CofferdamError('conflict', 'A sandbox of reuse scope "job" runs one program.')
    io.signal.throwIfAborted()
    this.#runs += 1
    this.#interrupt = new AbortController()
    const stop = (this.#stop = new AbortController())
    const onAbort = (): void => stop.abort(io.signal.reason)
    io.signal.addEventListener('abort', onAbort, { once: true })
    io.onHandedOver?.()
    try {
      return await this.#interpret(program, io, stop.signal, this.#interrupt.signal)
    } finally {
      io.signal.removeEventListener('abort', onAbort)
      this.#stop = null
      this.#interrupt = null
    }
  }

  async #interpret(program: Program, io: RunIo, stop: AbortSignal, interrupted: AbortSignal): Promise<Exit> {
    const startedAt = performance.now()
    const output = new BoundedOutput(io, stop)
    const steps = parseSteps(sourceOf(program))
    if ('error' in steps) await output.text('stderr', `${steps.error}\n`)
    const { usage, ...end } = await interpret('error' in steps ? [{ exit: 2 }] : steps, {
      output,
      files: this.#files,
      env: this.#spec.env,
      stdin: io.stdin ?? new Uint8Array(),
      stop,
      interrupted,
      die: () => this.#vanish(),
    })
    this.#usage = { ...unmeasuredUsage(performance.now() - startedAt), ...usage }
    return { ...end, ...output.counts(), usage: this.#usage }
  }

  async interrupt(): Promise<void> {
    this.#interrupt?.abort()
  }

  async write(files: readonly ProgramFile[]): Promise<void> {
    this.#assertAlive()
    for (const file of files) this.#files.put(file)
  }

  async read(path: string, maxBytes: number): Promise<Uint8Array> {
    this.#assertAlive()
    return this.#files.read(path, maxBytes)
  }

  async list(globs: readonly string[], maxEntries: number): Promise<Entry[]> {
    this.#assertAlive()
    return this.#files.list(globs, maxEntries)
  }

  async remove(path: string): Promise<void> {
    this.#assertAlive()
    this.#files.remove(path)
  }

  async usage(): Promise<Usage> {
    this.#assertAlive()
    return this.#usage
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#vanish()
  }

  #vanish(): void {
    if (this.#isGone) return
    this.#isGone = true
    this.#stop?.abort(destroyed())
    this.#onGone()
  }

  #assertAlive(): void {
    if (this.#isGone) throw destroyed()
  }
}

const destroyed = (): CofferdamError => new CofferdamError('sandbox_lost', 'The fake sandbox was destroyed.')

/** A command's arguments are lines of the fake language too. */
function sourceOf(program: Program): string {
  if (program.type === 'script') return program.source
  if (program.type === 'command') return program.shell ?? (program.argv ?? []).join('\n')
  return ''
}
