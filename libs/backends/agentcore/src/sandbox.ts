/** A Sandbox in a session of the service. After dispose, this object sends no more requests. */
import {
  BOUNDS,
  CofferdamError,
  pathSchema,
  unlessAborted,
  unmeasuredUsage,
  type Entry,
  type Exit,
  type Program,
  type ProgramFile,
  type RunIo,
  type Sandbox,
  type SandboxRef,
  type SandboxSpec,
  type Usage,
} from '@cofferdam/contract'
import type { CellSession } from './cell-session.ts'
import type { Answer } from './read-answer.ts'
import { runProgram } from './run-program.ts'

export interface SandboxParts {
  session: CellSession
  ref: SandboxRef
  kept: Sandbox['session']
  warm: boolean
  node: string
  callMaxMs: number
  /** Aborts when the session must not be used any more. */
  revoked: AbortSignal | null
  /** Ends the turn. `isLost`: do not reuse the session. Rejects if a session that must end may still run. */
  end(isLost: boolean): Promise<void>
}

export class AgentcoreSandbox implements Sandbox {
  readonly id: SandboxSpec['sandboxId']
  readonly ref: SandboxRef
  readonly isolation = 'microvm'
  readonly warm: boolean
  readonly session: Sandbox['session']
  readonly #parts: SandboxParts
  readonly #spec: SandboxSpec
  /** Ends every call in progress. */
  readonly #closed = new AbortController()
  #pending: ProgramFile[] = []
  #provided: string[] = []
  #runs = 0
  #running = 0
  #wallMs = 0
  #isLost = false
  #isGone = false
  #end: Promise<void> | null = null

  constructor(spec: SandboxSpec, parts: SandboxParts) {
    this.id = spec.sandboxId
    this.ref = parts.ref
    this.session = parts.kept
    this.warm = parts.warm
    this.#parts = parts
    this.#spec = spec
    parts.revoked?.addEventListener('abort', () => this.#close(), { once: true })
    if (parts.revoked?.aborted === true) this.#close()
  }

  async run(program: Program, io: RunIo): Promise<Exit> {
    io.signal.throwIfAborted()
    this.#check()
    if (this.#runs > 0 && this.#spec.reuse === 'job')
      throw new CofferdamError('conflict', 'A sandbox of reuse scope "job" runs one program.')
    this.#runs += 1
    this.#running += 1
    const startedAt = performance.now()
    try {
      const exit = await this.#within(io.signal, async (signal) => {
        const files = { archive: await this.#upload(signal), provided: this.#provided }
        const { session, node, callMaxMs } = this.#parts
        return await runProgram({ session, node, callMaxMs, spec: this.#spec }, program, files, io, {
          signal,
          startedAt,
        })
      })
      if (!this.#parts.session.isSound) this.#isLost = true
      return exit
    } catch (error) {
      this.#isLost = true
      // The program may still run. It is stopped with its session, and nobody needs to wait for that.
      if (io.signal.aborted) this[Symbol.asyncDispose]().catch(() => undefined)
      throw error
    } finally {
      this.#running -= 1
      this.#wallMs = performance.now() - startedAt
    }
  }

  /**
   * Does nothing, because a busy session takes no other call. The session's cell (our program in it) stops
   * the program at the soft deadline.
   */
  async interrupt(): Promise<void> {}

  async write(files: readonly ProgramFile[]): Promise<void> {
    this.#check()
    const all = [...this.#pending, ...files]
    for (const { path } of files) checkPath(path)
    const total = all.reduce((sum, { bytes }) => sum + bytes.length, 0)
    if (total > BOUNDS.filesTotalBytes || all.length > BOUNDS.fileCount)
      throw new CofferdamError('payload_too_large', `files of ${total} bytes in ${all.length} files`)
    // The bytes are copied, because they are sent with the next request.
    this.#pending = all.map((file) => ({ ...file, bytes: Uint8Array.from(file.bytes) }))
  }

  async read(path: string, maxBytes: number): Promise<Uint8Array> {
    checkPath(path)
    const { stdout } = await this.#ask({ op: 'read', path, most: maxBytes }, maxBytes)
    if (stdout.length > maxBytes) throw new CofferdamError('payload_too_large')
    return stdout
  }

  async list(globs: readonly string[], maxEntries: number): Promise<Entry[]> {
    const { head } = await this.#ask({ op: 'list', globs, most: maxEntries }, 0)
    // Drops names that no request could ask for.
    return (head.entries ?? []).filter(({ path }) => pathSchema.safeParse(path).success).slice(0, maxEntries)
  }

  async remove(path: string): Promise<void> {
    checkPath(path)
    await this.#ask({ op: 'remove', path }, 0)
  }

  async usage(): Promise<Usage> {
    this.#check()
    return unmeasuredUsage(this.#wallMs)
  }

  /** Marks the session as unfit for another execution. */
  retire(): void {
    this.#isLost = true
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#isGone = true
    if (this.#running > 0) this.#isLost = true
    this.#close()
    this.#end ??= this.#parts.end(this.#isLost).catch((error: unknown) => {
      this.#end = null
      throw error
    })
    return this.#end
  }

  #close(): void {
    this.#isLost ||= !this.#isGone
    this.#closed.abort(new CofferdamError('sandbox_lost'))
  }

  #check(): void {
    if (this.#isGone || this.#closed.signal.aborted) throw new CofferdamError('sandbox_lost')
  }

  async #ask(
    request: { op: string; path?: string; globs?: readonly string[]; most?: number },
    most: number,
  ): Promise<Answer> {
    this.#check()
    const signal = this.#closed.signal
    const archive = await this.#upload(signal)
    return await this.#parts.session.ask({ ...request, archive }, most, signal)
  }

  async #upload(signal: AbortSignal): Promise<string | null> {
    if (this.#pending.length === 0) return null
    const files = this.#pending
    this.#pending = []
    this.#provided.push(...files.map(({ path }) => path))
    return await this.#parts.session.upload(files, signal)
  }

  /** Rejects at once with the reason of the signal that aborted first. */
  async #within<T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const both = AbortSignal.any([signal, this.#closed.signal])
    return await unlessAborted(work(both), both)
  }
}

function checkPath(path: string): void {
  if (!pathSchema.safeParse(path).success)
    throw new CofferdamError('invalid_request', `not a path inside the work directory: ${path}`)
}
