/** A Sandbox on this host: a place's guest session, what the host knows better than the guest, and the end of the place. */
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
import type { GuestSession } from '@cofferdam/guest'
import type { Place } from '../warm/index.ts'
import type { CgroupCounters } from './cgroups.ts'
import { diskUse } from './disk-use.ts'
import { watchFolder, type FolderWatch } from './folder-watch.ts'
import type { HostSlot } from './host-slot.ts'
import { watchMemory, type MemoryWatch } from './memory-watch.ts'

/** Looks that stand in for limits which the kernel does not hold here. */
interface Watches {
  memory: MemoryWatch | null
  disk: FolderWatch | null
}

/** What a run is measured from. */
interface Began {
  counters: CgroupCounters | null
  at: number
}

const MiB = 1024 * 1024

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
  #began: Began | null = null
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
    const { cgroup, atRest } = this.#place.slot.parts
    const isReused = this.#spec.reuse !== 'job'
    if (isReused) cgroup?.resetPeak()
    // Reading takes 0.2 ms, which a program of its own slot need not wait for.
    const counters = isReused ? (cgroup?.read() ?? null) : atRest
    const began: Began = { counters, at: performance.now() }
    this.#began = began
    const watches = this.#watch()
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
      return this.#withHostEvidence(exit, began, watches)
    } catch (error) {
      // Memory that no process owns (a full tmpfs) ends with the death of the agent: that is still the program's doing.
      const oomKills = (cgroup?.read().oomKills ?? 0) - (began.counters?.oomKills ?? 0)
      if (!isLost(error) || oomKills <= 0) throw this.#withLastWords(error)
      return this.#withHostEvidence(killedForMemory(seen, performance.now() - began.at), began, watches)
    } finally {
      watches.memory?.stop()
      watches.disk?.stop()
      this.#place.settle()
    }
  }

  async interrupt(): Promise<void> {
    if (this.#ended !== null) return
    const { hard_timeout_ms: hard, soft_timeout_ms: soft } = this.#spec.limits
    this.#guest.interrupt(Math.max(100, hard - soft))
  }

  async read(path: string, maxBytes: number): Promise<Uint8Array> {
    return await this.#guest.read(path, maxBytes)
  }
  async list(globs: readonly string[], maxEntries: number): Promise<Entry[]> {
    return await this.#guest.list(globs, maxEntries)
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

  /** Since the program's start; from the kernel without a word of the guest where there are counters, for the program may hold it up. */
  async usage(): Promise<Usage> {
    const guest = this.#guest
    const began = this.#began
    if (!this.#isBusy && this.#last !== null) return this.#last
    if (this.#place.slot.parts.cgroup === null) return { ...(await guest.usage()), ...this.#diskUsage() }
    if (guest.closed) throw new CofferdamError('sandbox_lost')
    return {
      ...unmeasuredUsage(began === null ? 0 : performance.now() - began.at),
      ...this.#fromHost(began),
    }
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

  /** What the kernel does not limit on this host is looked at while a program runs. */
  #watch(): Watches {
    const { cgroup, identity, disks, folder } = this.#place.slot.parts
    const { memory_mib, disk_mib } = this.#spec.limits
    return {
      memory: cgroup === null ? watchMemory(identity.pid, memory_mib * MiB, disks) : null,
      disk: folder === null ? null : watchFolder(folder, disk_mib * MiB, identity.pid),
    }
  }

  /** The guest's word for what only it knows, the kernel's counters from outside for the rest. */
  #withHostEvidence(exit: Exit, began: Began, watches: Watches): Exit {
    const seen = onlyDeclared(this.#merged(exit, began, watches), this.#measures)
    this.#last = seen.usage
    return seen
  }

  #merged(exit: Exit, began: Began, { memory, disk }: Watches): Exit {
    const before = began.counters
    const after = this.#place.slot.parts.cgroup?.read() ?? null
    const isCounted = before !== null && after !== null
    const fromHost = isCounted ? this.#fromHost(began, after) : this.#diskUsage()
    const seen: Exit = {
      ...exit,
      usage: { ...exit.usage, ...fromHost },
      diskLimitHit: exit.diskLimitHit || (disk?.kills ?? 0) > 0,
    }
    if (!isCounted) return { ...seen, oomKills: exit.oomKills + (memory?.kills ?? 0) }
    return {
      ...seen,
      oomKills: after.oomKills - before.oomKills,
      pidsLimitHit: after.pidsHits > before.pidsHits,
    }
  }

  #fromHost(
    began: Began | null,
    now: CgroupCounters | null = this.#place.slot.parts.cgroup?.read() ?? null,
  ): Partial<Usage> {
    if (now === null) return {}
    const before = began?.counters ?? now
    return {
      cpu_ms: (now.cpuUs - before.cpuUs) / 1000,
      peak_memory_bytes: now.memoryPeak,
      ...(now.pidsPeak === null ? {} : { pids_peak: now.pidsPeak }),
      ...this.#diskUsage(),
    }
  }

  /** From outside where we may look, else what the guest said stands. */
  #diskUsage(): Partial<Usage> {
    const use = diskUse(this.#place.slot.parts.disks)
    return use === null ? {} : { disk_bytes: use.bytes }
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

/** Null in the fields that this host does not measure well enough to be declared. */
function onlyDeclared(exit: Exit, measures: Capabilities['measures']): Exit {
  const usage = { ...exit.usage }
  for (const field of ['read_bytes', 'write_bytes', 'pids_peak', 'disk_bytes'] as const)
    if (!measures.includes(field)) usage[field] = null
  return { ...exit, usage }
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
