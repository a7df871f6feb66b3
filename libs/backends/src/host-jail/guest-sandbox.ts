/** A Sandbox on this host: a guest session, what the host knows better than the guest, and the destruction that it was given. */
import {
  CofferdamError,
  isCofferdamError,
  unmeasuredUsage,
  type Entry,
  type Exit,
  type Isolation,
  type Program,
  type ProgramFile,
  type RunIo,
  type Sandbox,
  type SandboxId,
  type SandboxRef,
  type SandboxSpec,
  type Usage,
} from '@cofferdam/contract'
import type { GuestSession } from '@cofferdam/guest'
import type { Cgroup, CgroupCounters } from './cgroups.ts'
import { watchMemory, type MemoryWatch } from './memory-watch.ts'

export interface GuestSandboxParts {
  spec: SandboxSpec
  ref: SandboxRef
  isolation: Isolation
  session: GuestSession
  /** Null where none can be made; memory is then watched from outside. */
  cgroup: Cgroup | null
  /** Host pid of the agent. */
  agentPid: number
  /** Destroys and proves it; called at most once. */
  destroy(): Promise<void>
}

/** See `Sandbox` in the contract. */
export class GuestSandbox implements Sandbox {
  readonly id: SandboxId
  readonly ref: SandboxRef
  readonly isolation: Isolation
  readonly warm = false
  readonly session = null
  readonly #parts: GuestSandboxParts
  #destroyed: Promise<void> | null = null
  #hasRun = false

  constructor(parts: GuestSandboxParts) {
    this.#parts = parts
    this.id = parts.spec.sandboxId
    this.ref = parts.ref
    this.isolation = parts.isolation
  }

  async write(files: readonly ProgramFile[]): Promise<void> {
    await this.#parts.session.write(files)
  }

  async run(program: Program, io: RunIo): Promise<Exit> {
    const { spec, session, cgroup, agentPid } = this.#parts
    io.signal.throwIfAborted()
    if (session.closed) throw new CofferdamError('sandbox_lost')
    if (this.#hasRun && spec.reuse === 'job')
      throw new CofferdamError('conflict', 'A sandbox of reuse scope "job" runs one program.')
    this.#hasRun = true
    const limitBytes = spec.limits.memory_mib * 1024 * 1024
    const watch = cgroup === null ? watchMemory(agentPid, limitBytes) : null
    const startedAt = performance.now()
    const seen = { stdout: 0, stderr: 0 }
    const before = await cgroup?.read()
    try {
      const exit = await session.run(
        program,
        {
          ...io,
          onOutput: (stream, chunk) => {
            seen[stream] += chunk.length
            return io.onOutput(stream, chunk)
          },
        },
        spec.env,
      )
      return withHostEvidence(exit, await cgroup?.read(), before, watch)
    } catch (error) {
      // Memory that no process owns (a full tmpfs) ends with the death of the agent: that is still the program's doing.
      const after = await cgroup?.read().catch(() => undefined)
      if (!isLost(error) || after === undefined || after.oomKills <= (before?.oomKills ?? 0)) throw error
      return withHostEvidence(killedForMemory(seen, performance.now() - startedAt), after, before, watch)
    } finally {
      watch?.stop()
    }
  }

  async interrupt(): Promise<void> {
    const { hard_timeout_ms: hard, soft_timeout_ms: soft } = this.#parts.spec.limits
    this.#parts.session.interrupt(Math.max(100, hard - soft))
  }

  read(path: string, maxBytes: number): Promise<Uint8Array> {
    return this.#parts.session.read(path, maxBytes)
  }
  list(globs: readonly string[], maxEntries: number): Promise<Entry[]> {
    return this.#parts.session.list(globs, maxEntries)
  }
  remove(path: string): Promise<void> {
    return this.#parts.session.remove(path)
  }

  async usage(): Promise<Usage> {
    const seen = await this.#parts.session.usage()
    const counters = await this.#parts.cgroup?.read()
    return counters === undefined
      ? seen
      : { ...seen, cpu_ms: counters.cpuUs / 1000, peak_memory_bytes: counters.memoryPeak }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#destroyed ??= this.#parts.destroy()
    await this.#destroyed
  }
}

const isLost = (error: unknown): boolean => isCofferdamError(error) && error.code === 'sandbox_lost'

/** The guest's word for what only it knows, the kernel's counters from outside for the rest. */
function withHostEvidence(
  exit: Exit,
  after: CgroupCounters | undefined,
  before: CgroupCounters | undefined,
  watch: MemoryWatch | null,
): Exit {
  if (after === undefined)
    return watch === null || watch.kills === 0 ? exit : { ...exit, oomKills: exit.oomKills + watch.kills }
  return {
    ...exit,
    usage: {
      ...exit.usage,
      cpu_ms: (after.cpuUs - (before?.cpuUs ?? 0)) / 1000,
      peak_memory_bytes: after.memoryPeak,
    },
    oomKills: after.oomKills - (before?.oomKills ?? 0),
    pidsLimitHit: after.pidsHits > (before?.pidsHits ?? 0),
  }
}

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
