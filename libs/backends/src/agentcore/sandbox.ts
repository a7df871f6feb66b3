/** A Sandbox in a session of the service. After dispose this object reaches nothing any more. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
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
import { describeProgram } from './describe-program.ts'
import { fromAnswer, withoutAnswer } from './exit-evidence.ts'
import { createLiveOutput } from './live-output.ts'
import { traceParentOf } from './trace-parent.ts'
import type { Answer } from './read-answer.ts'

/**
 * Of each stream, in one answer: the service sends it twice, as text and as structured content, and all of it is in the worker's
 * memory before the first byte is handed over (10 MB of such text took 0.3 GB, measured).
 */
const OUTPUT_MAX = 8 * 1024 * 1024
/** The part of the time between the soft and the hard deadline in which the cell stops a program; the rest is for its answer. */
const GRACE_SHARE = 0.8
const GRACE_MIN_MS = 100
/** When a caller that has a hard deadline must have given up. */
const LATE_MS = 500

export interface SandboxParts {
  name: string
  session: CellSession
  ref: SandboxRef
  kept: Sandbox['session']
  warm: boolean
  node: string
  callMaxMs: number
  /** Aborts when the session must not be used any more. */
  revoked: AbortSignal | null
  /** Ends the turn. `isLost`: the session must not be used again. Rejects when its end is not proven. */
  end(isLost: boolean): Promise<void>
}

/** See `Sandbox` in the contract. */
export class AgentcoreSandbox implements Sandbox {
  readonly id: SandboxSpec['sandboxId']
  readonly ref: SandboxRef
  readonly isolation = 'microvm'
  readonly warm: boolean
  readonly session: Sandbox['session']
  readonly #parts: SandboxParts
  readonly #spec: SandboxSpec
  /** Ends every call that is under way. */
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
      const exit = await this.#within(
        io.signal,
        async (signal) => await this.#run(program, io, signal, startedAt),
      )
      if (!this.#parts.session.isSound) this.#isLost = true
      return exit
    } catch (error) {
      this.#isLost = true
      // Its program may run on: it is stopped with its session, and nobody needs to wait for that.
      if (io.signal.aborted) this[Symbol.asyncDispose]().catch(() => undefined)
      throw error
    } finally {
      this.#running -= 1
      this.#wallMs = performance.now() - startedAt
    }
  }

  async #run(program: Program, io: RunIo, signal: AbortSignal, startedAt: number): Promise<Exit> {
    const { limits, env, reuse } = this.#spec
    const archive = await this.#upload(signal)
    const keep = reuse === 'session' && program.type === 'script' && program.language === 'python'
    const softMs = limits.soft_timeout_ms
    const graceMs = Math.max(GRACE_MIN_MS, (limits.hard_timeout_ms - softMs) * GRACE_SHARE)
    const most = {
      stdout: Math.min(io.maxOutputBytes.stdout, OUTPUT_MAX),
      stderr: Math.min(io.maxOutputBytes.stderr, OUTPUT_MAX),
    }
    const output = createLiveOutput(io, most)
    // A reader that fails ends the run: its program may wait for that reader for ever.
    const reader = new AbortController()
    const both = AbortSignal.any([signal, reader.signal])
    const inCell = program.type === 'script' && program.language === 'python'
    const isLong = limits.hard_timeout_ms > this.#parts.callMaxMs
    const { answer, result } = await this.#parts.session.run(
      {
        once: randomUUID(),
        softMs,
        graceMs,
        carrier: isLong && !keep ? 'task' : inCell ? 'cell' : 'command',
        maxOutput: most.stdout + most.stderr,
        traceParent: traceParentOf(this.#spec),
        job: {
          op: 'run',
          archive,
          keep,
          program: describeProgram(program, this.#provided),
          node: this.#parts.node,
          env,
          secrets: secretsIn(env),
          stdin: Buffer.from(io.stdin ?? []).toString('base64'),
          soft_ms: softMs,
          grace_ms: graceMs,
          max: most,
        },
        async onLive(piece) {
          both.throwIfAborted()
          await output.take(piece).catch((error: unknown) => {
            reader.abort(error)
            throw error
          })
        },
      },
      both,
    )
    const wallMs = performance.now() - startedAt
    // What did not end by itself may have left anything running.
    if (answer === null || answer.head.exit?.stopped === true) this.#parts.session.spoil()
    const { stdout, stderr, ...ended } =
      answer === null ? withoutAnswer(result, output.handed, most, wallMs >= softMs) : fromAnswer(answer)
    await (answer === null ? output.append({ stdout, stderr }) : output.finish({ stdout, stderr }))
    const exit = { ...ended, usage: unmeasuredUsage(wallMs) }
    if (answer === null) return exit
    // It was killed a little early, so that its output could still come: the hard deadline is what ended it.
    if (answer.head.exit?.killed === true)
      await sleep(limits.hard_timeout_ms + LATE_MS - wallMs, undefined, { signal }).catch(() => undefined)
    return exit
  }

  /** The end is in the program's own hands, at its soft deadline: no other call reaches a session that is busy. */
  async interrupt(): Promise<void> {}

  async write(files: readonly ProgramFile[]): Promise<void> {
    this.#check()
    const all = [...this.#pending, ...files]
    for (const { path } of files) checkPath(path)
    const total = all.reduce((sum, { bytes }) => sum + bytes.length, 0)
    if (total > BOUNDS.filesTotalBytes || all.length > BOUNDS.fileCount)
      throw new CofferdamError('payload_too_large', `files of ${total} bytes in ${all.length} files`)
    // Their bytes are ours only now; they go with the next request.
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
    // Names that no request could ask for are nobody's files.
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

  /** The session must not be used for another execution. */
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

  /** Rejects with the reason of whichever signal came first, at once. */
  async #within<T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const both = AbortSignal.any([signal, this.#closed.signal])
    return await unlessAborted(work(both), both)
  }
}

function checkPath(path: string): void {
  if (!pathSchema.safeParse(path).success)
    throw new CofferdamError('invalid_request', `not a path inside the work directory: ${path}`)
}

const SECRET_NAME = /token|secret|passw|api_?key|access_?key|private_?key|credential/i
const secretsIn = (env: Record<string, string>): string[] =>
  Object.entries(env).flatMap(([name, value]) => (SECRET_NAME.test(name) ? [value] : []))
