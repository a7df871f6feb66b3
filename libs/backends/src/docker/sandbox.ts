/**
 * A slot bound to one execution: the guest session, the evidence of the daemon where the agent has none, and an end
 * that is proven. dispose closes the channel (the agent kills everything within milliseconds) and asks the daemon to kill and
 * remove at the same time (the agent is advisory).
 */
import {
  CofferdamError,
  isCofferdamError,
  unmeasuredUsage,
  type Capabilities,
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
import type { Daemon } from './daemon.ts'
import { destroyContainer } from './destroy-container.ts'
import type { OomEvents } from './oom-events.ts'
import { onlyMeasured } from './runtime-kind.ts'
import type { Slot } from './start-slot.ts'

export interface BindOptions {
  backend: string
  isolation: Isolation
  capabilities: Capabilities
  warm: boolean
  daemon: Daemon
  oomEvents: OomEvents
}

/** Gives a slot its execution. */
export function bindSlot(slot: Slot, spec: SandboxSpec, options: BindOptions): Sandbox {
  return new DockerSandbox(slot, spec, options)
}

class DockerSandbox implements Sandbox {
  readonly id: SandboxSpec['sandboxId']
  readonly ref: SandboxRef
  readonly isolation: Isolation
  readonly warm: boolean
  readonly session = null
  readonly #slot: Slot
  readonly #spec: SandboxSpec
  readonly #daemon: Daemon
  readonly #oomEvents: OomEvents
  readonly #capabilities: Capabilities
  #runs = 0
  #gone: Promise<void> | null = null

  constructor(slot: Slot, spec: SandboxSpec, options: BindOptions) {
    this.id = spec.sandboxId
    this.ref = { backend: options.backend, id: spec.sandboxId, handle: { slot: slot.spec.slotId } }
    this.isolation = options.isolation
    this.warm = options.warm
    this.#slot = slot
    this.#spec = spec
    this.#daemon = options.daemon
    this.#oomEvents = options.oomEvents
    this.#capabilities = options.capabilities
  }

  async run(program: Program, io: RunIo): Promise<Exit> {
    if (this.#spec.reuse === 'job' && this.#runs > 0)
      throw new CofferdamError('conflict', 'A sandbox of reuse scope "job" runs one program.')
    this.#runs += 1
    const seen = { stdout: 0, stderr: 0 }
    const startedAt = performance.now()
    const counted: RunIo = {
      ...io,
      onOutput: (stream, chunk) => {
        seen[stream] += chunk.length
        return io.onOutput(stream, chunk)
      },
    }
    try {
      const exit = await this.#slot.session.run(program, counted, this.#spec.env)
      return { ...exit, usage: onlyMeasured(exit.usage, this.#capabilities) }
    } catch (error) {
      if (!isCofferdamError(error) || error.code !== 'sandbox_lost' || this.#gone !== null) throw error
      if (!(await this.#oomEvents.happened(this.#slot.name))) throw this.#withLastWords(error)
      return exitByOom(seen, performance.now() - startedAt)
    }
  }

  async interrupt(): Promise<void> {
    this.#slot.session.interrupt()
  }

  write(files: readonly ProgramFile[]): Promise<void> {
    return this.#slot.session.write(files)
  }

  read(path: string, maxBytes: number): Promise<Uint8Array> {
    return this.#slot.session.read(path, maxBytes)
  }

  list(globs: readonly string[], maxEntries: number): Promise<Entry[]> {
    return this.#slot.session.list(globs, maxEntries)
  }

  remove(path: string): Promise<void> {
    return this.#slot.session.remove(path)
  }

  async usage(): Promise<Usage> {
    return onlyMeasured(await this.#slot.session.usage(), this.#capabilities)
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#gone ??= this.#destroy()
    return this.#gone
  }

  async #destroy(): Promise<void> {
    this.#slot.session.close()
    await destroyContainer(this.#daemon, this.#slot.name)
  }

  #withLastWords(error: CofferdamError): CofferdamError {
    const tail = this.#slot.stderrTail()
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
