/**
 * A Sandbox at a vendor: one execution's turn on a slot whose agent speaks our frames over whatever channel the vendor gives.
 * After dispose this object reaches nothing any more.
 */
import {
  CofferdamError,
  isCofferdamError,
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
import type { GuestSession } from '@cofferdam/sandbox/guest'
import { graceOf, onlyMeasured } from '@cofferdam/sandbox/backend'
import type { Place } from '@cofferdam/sandbox/warm'
import type { RemoteSlot } from './remote-slot.ts'

/** See `Sandbox` in the contract. */
export class RemoteSandbox implements Sandbox {
  readonly id: SandboxSpec['sandboxId']
  readonly ref: SandboxRef
  readonly isolation: Isolation
  readonly warm: boolean
  readonly session: Sandbox['session']
  readonly #place: Place<RemoteSlot>
  readonly #spec: SandboxSpec
  readonly #measures: Capabilities['measures']
  #runs = 0
  #running = 0
  #isLost = false
  #gone: Promise<void> | null = null

  constructor(
    backend: { name: string; isolation: Isolation; measures: Capabilities['measures'] },
    spec: SandboxSpec,
    place: Place<RemoteSlot>,
  ) {
    this.id = spec.sandboxId
    const { handle, vendorRef } = place.slot
    this.ref = { backend: backend.name, id: spec.sandboxId, handle: { ...handle }, vendorRef }
    this.isolation = backend.isolation
    this.warm = place.warm
    this.session = place.session
    this.#place = place
    this.#spec = spec
    this.#measures = backend.measures
  }

  async run(program: Program, io: RunIo): Promise<Exit> {
    io.signal.throwIfAborted()
    const guest = this.#guest
    if (this.#runs > 0 && this.#spec.reuse === 'job')
      throw new CofferdamError('conflict', 'A sandbox of reuse scope "job" runs one program.')
    this.#runs += 1
    this.#running += 1
    const ways: RunIo = { ...io }
    // Whatever the caller gives: a sandbox without network has no way out.
    if (this.#spec.network === 'none') delete ways.onConnection
    try {
      const options = { keepInterpreter: this.#place.keepsInterpreter }
      const exit = await guest.run(program, ways, this.#spec.env, options)
      return { ...exit, usage: onlyMeasured(exit.usage, this.#measures) }
    } catch (error) {
      if (io.signal.aborted) this.#isLost = true
      throw this.#withLastWords(error)
    } finally {
      this.#running -= 1
      this.#place.settle()
    }
  }

  async interrupt(): Promise<void> {
    if (this.#gone !== null) return
    this.#guest.interrupt(graceOf(this.#spec))
  }

  async write(files: readonly ProgramFile[]): Promise<void> {
    await this.#guest.write(files)
  }
  async read(path: string, maxBytes: number): Promise<Uint8Array> {
    return await this.#guest.read(path, maxBytes)
  }
  async list(globs: readonly string[], maxEntries: number): Promise<Entry[]> {
    return await this.#guest.list(globs, maxEntries)
  }
  async links(globs: readonly string[], maxEntries: number): Promise<Entry[]> {
    return await this.#guest.links(globs, maxEntries)
  }
  async remove(path: string): Promise<void> {
    await this.#guest.remove(path)
  }
  retire(): void {
    this.#isLost = true
  }
  async usage(): Promise<Usage> {
    return onlyMeasured(await this.#guest.usage(), this.#measures)
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#gone ??= this.#end()
    return this.#gone
  }

  #end(): Promise<void> {
    const { session } = this.#place.slot
    const isLost = this.#isLost || this.#running > 0 || session.closed
    // A run that is pending rejects now, not after the vendor's answer.
    if (isLost || this.#spec.reuse === 'job') session.close()
    return this.#place.end(isLost)
  }

  get #guest(): GuestSession {
    if (this.#gone !== null) throw new CofferdamError('sandbox_lost')
    return this.#place.slot.session
  }

  #withLastWords(error: unknown): unknown {
    const said = this.#place.slot.stderrTail()
    if (!isCofferdamError(error) || error.code !== 'sandbox_lost' || said === '') return error
    return new CofferdamError(error.code, error.message, {
      cause: error,
      details: { ...error.details, agent_stderr: said },
    })
  }
}
