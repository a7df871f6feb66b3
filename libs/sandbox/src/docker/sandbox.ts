/**
 * A slot bound to one execution: the guest session, the evidence of the daemon where the agent has none, and an end
 * that is proven. dispose of a single-use slot closes the channel (the agent kills everything within milliseconds) and asks
 * the daemon to kill and remove at the same time (the agent is advisory); a turn in a cell ends clean, or the same way.
 *
 * After dispose this object reaches nothing any more: the cell behind it may be serving the next execution.
 */
import {
  CofferdamError,
  isCofferdamError,
  unmeasuredUsage,
  type Capabilities,
  type Listing,
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
import type { GuestSession } from '../guest/index.ts'
import { graceOf } from '../grace.ts'
import { onlyMeasured } from '../only-measured.ts'
import type { Place } from '../warm/index.ts'
import type { DockerSlot } from './docker-slot.ts'
import type { OomEvents } from './oom-events.ts'

export interface BindOptions {
  backend: string
  isolation: Isolation
  capabilities: Capabilities
  oomEvents: OomEvents
}

/** Gives a slot its execution. */
export function bindSlot(place: Place<DockerSlot>, spec: SandboxSpec, options: BindOptions): Sandbox {
  return new DockerSandbox(place, spec, options)
}

class DockerSandbox implements Sandbox {
  readonly id: SandboxSpec['sandboxId']
  readonly ref: SandboxRef
  readonly isolation: Isolation
  readonly warm: boolean
  readonly session: Sandbox['session']
  readonly #place: Place<DockerSlot>
  readonly #spec: SandboxSpec
  readonly #oomEvents: OomEvents
  readonly #capabilities: Capabilities
  #runs = 0
  #running = 0
  #startedAt: number | null = null
  #isLost = false
  #gone: Promise<void> | null = null

  constructor(place: Place<DockerSlot>, spec: SandboxSpec, options: BindOptions) {
    this.id = spec.sandboxId
    this.ref = { backend: options.backend, id: spec.sandboxId, handle: { slot: place.slot.spec.slotId } }
    this.isolation = options.isolation
    this.warm = place.warm
    this.session = place.session
    this.#place = place
    this.#spec = spec
    this.#oomEvents = options.oomEvents
    this.#capabilities = options.capabilities
  }

  async run(program: Program, io: RunIo): Promise<Exit> {
    if (this.#spec.reuse === 'job' && this.#runs > 0)
      throw new CofferdamError('conflict', 'A sandbox of reuse scope "job" runs one program.')
    this.#runs += 1
    const { slot, keepsInterpreter } = this.#place
    const guest = this.#guest
    const seen = { stdout: 0, stderr: 0 }
    const startedAt = performance.now()
    this.#startedAt = startedAt
    const counted: RunIo = {
      ...io,
      onOutput: (stream, chunk) => {
        seen[stream] += chunk.length
        return io.onOutput(stream, chunk)
      },
    }
    this.#running += 1
    // An event of an earlier execution in this cell says nothing about this one.
    this.#oomEvents.begin(slot.name)
    slot.counters?.begin()
    try {
      const exit = await guest.run(program, counted, this.#spec.env, { keepInterpreter: keepsInterpreter })
      this.#place.settle()
      return { ...exit, usage: this.#measured(exit.usage) }
    } catch (error) {
      if (io.signal.aborted) this.#isLost = true
      if (!isCofferdamError(error) || error.code !== 'sandbox_lost' || this.#gone !== null) throw error
      if (!(await this.#oomEvents.happened(slot.name))) throw this.#withLastWords(error)
      return exitByOom(seen, performance.now() - startedAt)
    } finally {
      this.#running -= 1
    }
  }

  async interrupt(): Promise<void> {
    if (this.#gone === null) this.#place.slot.session.interrupt(graceOf(this.#spec))
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
  async snapshot(request: Parameters<GuestSession['snapshot']>[0]): Promise<ProgramFile[]> {
    return await this.#guest.snapshot(request)
  }

  async usage(): Promise<Usage> {
    const { counters } = this.#place.slot
    if (counters === null) return this.#measured(await this.#guest.usage())
    // Without a word of the guest, which a busy program may hold up.
    if (this.#guest.closed) throw new CofferdamError('sandbox_lost')
    return this.#measured(unmeasuredUsage(this.#startedAt === null ? 0 : performance.now() - this.#startedAt))
  }

  [Symbol.asyncDispose](): Promise<void> {
    // A pending run may still write; nobody waits for its end any more.
    this.#gone ??= this.#place.end(this.#isLost || this.#running > 0)
    return this.#gone
  }

  get #guest(): GuestSession {
    if (this.#gone !== null) throw new CofferdamError('sandbox_lost')
    return this.#place.slot.session
  }

  /** What the guest says of a run, or this host of its container, in what the backend declares. */
  #measured(usage: Usage): Usage {
    return onlyMeasured({ ...usage, ...this.#place.slot.counters?.used() }, this.#capabilities.measures)
  }

  #withLastWords(error: CofferdamError): CofferdamError {
    const tail = this.#place.slot.stderrTail()
    if (tail === '') return error
    return new CofferdamError(error.code, error.message, {
      cause: error,
      details: { ...error.details, agent_stderr: tail },
    })
  }
}

/** What is known when the kernel killed the agent too: the signal, and what had come out by then. */
function exitByOom(seen: { stdout: number; stderr: number }, wallMs: number): Exit {
  return {
    exitCode: null,
    signal: 'SIGKILL',
    usage: unmeasuredUsage(wallMs),
    outputBytes: seen,
    outputDropped: { stdout: false, stderr: false },
    oomKills: 1,
    pidsLimitHit: false,
    diskLimitHit: false,
  }
}
