/**
 * The sandbox of every backend with our guest agent: one execution on a slot, or one turn in a cell.
 * Differences between backends (how a sandbox is destroyed, what the host sees of a run, content of a ref)
 * are in the slot (guest-slot.ts).
 *
 * After dispose this object reaches nothing: the cell behind it may serve the next execution.
 */
import {
  CofferdamError,
  isCofferdamError,
  unmeasuredUsage,
  type Backend,
  type Capabilities,
  type Exit,
  type Listing,
  type Program,
  type ProgramFile,
  type RunIo,
  type Sandbox,
  type SandboxRef,
  type SandboxSpec,
  type Usage,
} from '@cofferdam/contract'
import type { GuestSession } from './guest/index.ts'
import type { GuestSlot, RunWatch } from './guest-slot.ts'
import { refOf, type BoundSlot } from './warm/index.ts'

/** Equal soft and hard deadlines still leave a program time for its last output. */
const GRACE_MIN_MS = 100

/** The current or last run. */
interface Run {
  startedMs: number
  watch: RunWatch | null
  /** Set when the run has ended with an exit. */
  usage: Usage | null
}

export class GuestSandbox implements Sandbox {
  readonly id: SandboxSpec['sandboxId']
  readonly ref: SandboxRef
  readonly isolation: Backend['isolation']
  readonly warm: boolean
  readonly session: Sandbox['session']
  readonly snapshot?: NonNullable<Sandbox['snapshot']>
  readonly pause?: NonNullable<Sandbox['pause']>
  readonly fork?: NonNullable<Sandbox['fork']>
  readonly #bound: BoundSlot<GuestSlot>
  readonly #spec: SandboxSpec
  readonly #capabilities: Capabilities
  #runs = 0
  #running = 0
  #run: Run | null = null
  /** True if the sandbox must not serve another execution. */
  #isLost = false
  #isDisposed = false
  #gone: Promise<void> | null = null

  constructor(
    backend: Pick<Backend, 'name' | 'isolation' | 'capabilities'>,
    spec: SandboxSpec,
    bound: BoundSlot<GuestSlot>,
  ) {
    this.id = spec.sandboxId
    this.ref = refOf(backend.name, spec.sandboxId, bound.slot)
    this.isolation = backend.isolation
    this.warm = bound.warm
    this.session = bound.session
    this.#bound = bound
    this.#spec = spec
    this.#capabilities = backend.capabilities
    // No snapshots of a remote sandbox: the copies would share a slow channel with the program's output.
    if (backend.capabilities.remote !== true)
      this.snapshot = async (request) => await this.#guest.snapshot(request)
    const { pause, fork } = bound
    if (fork !== undefined) this.fork = fork
    if (pause !== undefined)
      this.pause = async (signal) => {
        await pause(signal)
        this.#isLost = true
      }
  }

  async run(program: Program, io: RunIo): Promise<Exit> {
    io.signal.throwIfAborted()
    const { slot, keepsInterpreter, keepsProcesses = false } = this.#bound
    const guest = this.#guest
    if (this.#runs > 0 && this.#spec.reuse === 'job')
      throw new CofferdamError('conflict', 'A sandbox of reuse scope "job" runs one program.')
    this.#runs += 1
    this.#running += 1
    const run: Run = { startedMs: performance.now(), watch: slot.watch?.(this.#spec) ?? null, usage: null }
    this.#run = run
    const seen = { stdout: 0, stderr: 0 }
    const counted: RunIo = {
      ...io,
      onOutput: (stream, chunk) => {
        seen[stream] += chunk.length
        return io.onOutput(stream, chunk)
      },
    }
    // Whatever the caller gives, a sandbox without network has no way out.
    if (this.#spec.network === 'none') delete counted.onConnection
    try {
      const kept = { keepInterpreter: keepsInterpreter, keepProcesses: keepsProcesses }
      const exit = await guest.run(program, counted, this.#spec.env, kept)
      return this.#finish(run, exit)
    } catch (error) {
      if (io.signal.aborted) this.#isLost = true
      if (!isLoss(error) || this.#isDisposed || !(await run.watch?.killedForMemory()))
        throw this.#withLastWords(error)
      // The program used up the memory, so the kernel killed the agent too. That is the program's ending.
      return this.#finish(run, killedForMemory(seen, performance.now() - run.startedMs))
    } finally {
      this.#running -= 1
      run.watch?.stop()
      this.#bound.programEnded()
    }
  }

  /**
   * The only soft stop: the agent sends SIGINT now, and SIGTERM after half of the time between the deadlines.
   * The executor's dispose kills at the hard deadline.
   */
  async interrupt(): Promise<void> {
    if (this.#isDisposed) return
    const { soft_timeout_ms, hard_timeout_ms } = this.#spec.limits
    this.#guest.interrupt(Math.max(GRACE_MIN_MS, hard_timeout_ms - soft_timeout_ms))
  }

  async write(files: readonly ProgramFile[]): Promise<void> {
    await this.#guest.write(files)
  }
  async read(path: string, maxBytes: number): Promise<Uint8Array> {
    return await this.#guest.read(path, maxBytes)
  }
  async list(globs: readonly string[], maxEntries: number): Promise<Listing> {
    return await this.#guest.list(globs, maxEntries)
  }
  async links(globs: readonly string[], maxEntries: number): Promise<Listing> {
    return await this.#guest.links(globs, maxEntries)
  }
  async remove(path: string): Promise<void> {
    await this.#guest.remove(path)
  }
  retire(): void {
    this.#isLost = true
  }

  /**
   * The usage of the current run so far. After a run, its final usage, with the CPU time that reading its
   * files took since. Host counters are read without the agent, because a busy program may delay the agent.
   */
  async usage(): Promise<Usage> {
    const guest = this.#guest
    const run = this.#run
    const outside = run?.watch?.usage() ?? null
    if (outside !== null && guest.closed) throw new CofferdamError('sandbox_lost')
    if (run === null || run.usage === null)
      return this.#measured(
        outside === null || run === null
          ? await guest.usage()
          : { ...unmeasuredUsage(performance.now() - run.startedMs), ...outside },
      )
    if (run.usage.cpu_ms === null) return run.usage
    const { cpu_ms } = outside ?? (await guest.usage())
    return { ...run.usage, cpu_ms: Math.max(run.usage.cpu_ms, cpu_ms ?? 0) }
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true
    // If a run is pending, the sandbox is destroyed without waiting for the run's end.
    this.#gone ??= this.#bound
      .end(this.#isLost || this.#running > 0 || this.#bound.slot.session.closed)
      .catch((error: unknown) => {
        // Let a repeated call try again: by then the sandbox may be gone.
        this.#gone = null
        throw error
      })
    return this.#gone
  }

  /** The guest of this turn. The next turn's guest is not accessible. */
  get #guest(): GuestSession {
    if (this.#isDisposed) throw new CofferdamError('sandbox_lost')
    return this.#bound.slot.session
  }

  #finish(run: Run, said: Exit): Exit {
    const exit = run.watch?.addTo(said) ?? said
    run.usage = this.#measured(exit.usage)
    return { ...exit, usage: run.usage }
  }

  /** Sets fields to null that the backend does not measure well enough to declare. */
  #measured(usage: Usage): Usage {
    const { measures } = this.#capabilities
    const kept = (field: keyof Usage): number | null => (measures.includes(field) ? usage[field] : null)
    return {
      cpu_ms: kept('cpu_ms'),
      peak_memory_bytes: kept('peak_memory_bytes'),
      read_bytes: kept('read_bytes'),
      write_bytes: kept('write_bytes'),
      pids_peak: kept('pids_peak'),
      disk_bytes: kept('disk_bytes'),
      wall_ms: usage.wall_ms,
    }
  }

  #withLastWords(error: unknown): unknown {
    const tail = this.#bound.slot.stderrTail()
    if (!isLoss(error) || tail === '') return error
    return new CofferdamError(error.code, error.message, {
      cause: error,
      details: { ...error.details, agent_stderr: tail },
    })
  }
}

const isLoss = (error: unknown): error is CofferdamError =>
  isCofferdamError(error) && error.code === 'sandbox_lost'

/** What is known if the agent was killed too: the signal, and the output until then. */
function killedForMemory(outputBytes: Exit['outputBytes'], wallMs: number): Exit {
  return {
    exitCode: null,
    signal: 'SIGKILL',
    usage: unmeasuredUsage(wallMs),
    outputBytes,
    outputDropped: { stdout: false, stderr: false },
    oomKills: 1,
    pidsLimitHit: false,
    diskLimitHit: false,
  }
}
