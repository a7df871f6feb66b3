/** A Sandbox on this host: a place's guest session, what the host knows better than the guest, and the end of the place. */
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
import type { HostSlot } from './host-slot.ts'
import { usageFromHost, watchRun, type RunEvidence } from './run-evidence.ts'

/** See `Sandbox` in the contract. */
export class GuestSandbox implements Sandbox {
  readonly id: SandboxSpec['sandboxId']
  readonly ref: SandboxRef
  readonly isolation: Isolation
  readonly warm: boolean
  readonly session: Sandbox['session']
  readonly #spec: SandboxSpec
  readonly #measures: Capabilities['measures']
  readonly #place: Place<HostSlot>
  #isRetired = false
  #ended: Promise<void> | null = null
  #runs = 0
  /** Of the program that runs, or ended last. */
  #evidence: RunEvidence | null = null
  /** Of the program that ended last. */
  #last: Usage | null = null
  /** True while a program may be running: its place is then not one that another could use. */
  #isBusy = false

  constructor(
    { name, isolation, measures }: { name: string; isolation: Isolation; measures: Capabilities['measures'] },
    spec: SandboxSpec,
    place: Place<HostSlot>,
  ) {
    this.#measures = measures
    this.#spec = spec
    this.#place = place
    this.id = spec.sandboxId
    this.isolation = isolation
    this.warm = place.warm
    this.session = place.session
    const { pid, start, place: where } = place.slot.parts.identity
    this.ref = {
      backend: name,
      id: spec.sandboxId,
      handle: { slot: place.slot.spec.slotId, pid, start, place: where },
    }
  }

  /** The guest of this turn; the next one in the cell is not ours to talk to. */
  get #guest(): GuestSession {
    if (this.#ended !== null) throw new CofferdamError('sandbox_lost')
    return this.#place.slot.parts.session
  }

  async write(files: readonly ProgramFile[]): Promise<void> {
    await this.#guest.write(files)
  }

  async run(program: Program, io: RunIo): Promise<Exit> {
    io.signal.throwIfAborted()
    const guest = this.#guest
    if (guest.closed) throw new CofferdamError('sandbox_lost')
    if (this.#runs > 0 && this.#spec.reuse === 'job')
      throw new CofferdamError('conflict', 'A sandbox of reuse scope "job" runs one program.')
    this.#runs += 1
    this.#isBusy = true
    const evidence = watchRun(this.#place.slot.parts, this.#spec)
    this.#evidence = evidence
    const seen = { stdout: 0, stderr: 0 }
    const counted: RunIo = {
      ...io,
      onOutput: (stream, chunk) => {
        seen[stream] += chunk.length
        return io.onOutput(stream, chunk)
      },
    }
    // Whatever the caller gives: a sandbox without network has no way out.
    if (this.#spec.network === 'none') delete counted.onConnection
    try {
      const options = { keepInterpreter: this.#place.keepsInterpreter }
      const exit = await guest.run(program, counted, this.#spec.env, options)
      this.#isBusy = false
      return this.#withEvidence(exit, evidence)
    } catch (error) {
      // Memory that no process owns (a full tmpfs) ends with the death of the agent: that is still the program's doing.
      if (!isLost(error) || evidence.oomKills() <= 0) throw this.#withLastWords(error)
      return this.#withEvidence(killedForMemory(seen, evidence.wallMs()), evidence)
    } finally {
      evidence.stop()
      this.#place.settle()
    }
  }

  async interrupt(): Promise<void> {
    if (this.#ended !== null) return
    this.#guest.interrupt(graceOf(this.#spec))
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
    this.#isRetired = true
  }
  async snapshot(request: Parameters<GuestSession['snapshot']>[0]): Promise<ProgramFile[]> {
    return await this.#guest.snapshot(request)
  }

  /** Since the program's start; from the kernel without a word of the guest where there are counters or a limit, for the program may hold it up. */
  async usage(): Promise<Usage> {
    const guest = this.#guest
    if (!this.#isBusy && this.#last !== null) return await this.#withLaterCpu(this.#last)
    const { parts } = this.#place.slot
    const walked = this.#evidence?.walkedCpuMs() ?? null
    if (parts.cgroup === null && walked === null)
      return { ...(await guest.usage()), ...usageFromHost(parts, null) }
    if (guest.closed) throw new CofferdamError('sandbox_lost')
    return {
      ...unmeasuredUsage(this.#evidence?.wallMs() ?? 0),
      ...(walked === null ? {} : { cpu_ms: walked }),
      ...usageFromHost(parts, this.#evidence?.before ?? null),
    }
  }

  /** What was used at the run's end, and the CPU time of what was done about its files since. */
  async #withLaterCpu(last: Usage): Promise<Usage> {
    if (last.cpu_ms === null) return last
    const { parts } = this.#place.slot
    const counted = usageFromHost(parts, this.#evidence?.before ?? null).cpu_ms
    const cpu = parts.cgroup === null ? (await this.#guest.usage()).cpu_ms : counted
    return { ...last, cpu_ms: Math.max(last.cpu_ms, cpu ?? 0) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ended ??= this.#end()
    await this.#ended
  }

  #end(): Promise<void> {
    const { session } = this.#place.slot.parts
    const isLost = this.#isBusy || this.#isRetired || session.closed
    // A run that is pending rejects now, not after the proof.
    if (isLost || this.#spec.reuse === 'job') session.close()
    return this.#place.end(isLost)
  }

  /** With what was seen from outside, and null in what this host does not measure well enough to be declared. */
  #withEvidence(exit: Exit, evidence: RunEvidence): Exit {
    const seen = evidence.addTo(exit)
    this.#last = onlyMeasured(seen.usage, this.#measures)
    return { ...seen, usage: this.#last }
  }

  #withLastWords(error: unknown): unknown {
    const said = this.#place.slot.parts.lastWords()
    if (!isLost(error) || said === '') return error
    return new CofferdamError(error.code, error.message, {
      cause: error,
      details: { ...error.details, agent_stderr: said },
    })
  }
}

const isLost = (error: unknown): error is CofferdamError =>
  isCofferdamError(error) && error.code === 'sandbox_lost'

function killedForMemory(seen: { stdout: number; stderr: number }, wallMs: number): Exit {
  return {
    exitCode: null,
    signal: 'SIGKILL',
    usage: unmeasuredUsage(wallMs),
    outputBytes: { ...seen },
    outputDropped: { stdout: false, stderr: false },
    oomKills: 0,
    pidsLimitHit: false,
    diskLimitHit: false,
  }
}
