/** A started sandbox of this host whose agent waits: what warm pools keep, and what a Sandbox is bound to. */
import { CofferdamError, type SessionScope } from '@cofferdam/contract'
import type { GuestSession } from '@cofferdam/guest'
import type { CellSlot, SlotSpec } from '../warm/index.ts'
import type { Cgroup, CgroupCounters } from './cgroups.ts'
import { descendants, type ProcessIdentity } from './process-identity.ts'

export interface HostSlotParts {
  spec: SlotSpec
  session: GuestSession
  /** The agent. */
  identity: ProcessIdentity
  /** Null where none can be made; memory is then watched from outside. */
  cgroup: Cgroup | null
  /** Its counters when the interpreter waited: a slot that serves one program does nothing until then. Null without a group. */
  atRest: CgroupCounters | null
  /** Where programs write on the host; null when they write to file systems of their own. */
  folder: string | null
  /** The same as paths that the worker can look at (`statfs`); empty with `folder`. */
  disks: readonly string[]
  /** The agent's last words on stderr. */
  lastWords(): string
  /** Kills, proves and forgets; called once. */
  end(): Promise<void>
}

export class HostSlot implements CellSlot {
  readonly parts: HostSlotParts
  readonly spec: SlotSpec
  /** Processes that stood there when nothing had run: what a clean cell may have. */
  readonly #restingProcesses: number
  readonly #listeners: (() => void)[] = []
  #gone: Promise<void> | null = null

  constructor(parts: HostSlotParts) {
    this.parts = parts
    this.spec = parts.spec
    this.#restingProcesses = this.#countProcesses()
  }

  get alive(): boolean {
    return !this.parts.session.closed && this.#gone === null
  }

  onClosed(listener: () => void): void {
    if (this.parts.session.closed) listener()
    else this.#listeners.push(listener)
  }

  /** Tells the listeners; the session's own end calls it. */
  closed(): void {
    for (const listener of this.#listeners.splice(0)) listener()
  }

  /**
   * The agent's proof, and the host's beside it: whatever the program did to the agent, no process of it may be left in the cgroup
   * (or below the agent). A kept interpreter may have kept children of its own, which are then the session's.
   */
  async clean(keep: SessionScope, signal: AbortSignal): Promise<void> {
    await this.parts.session.clean(keep, signal)
    if (keep !== 'interpreter' && !this.#holdsAtMost(this.#restingProcesses))
      throw new CofferdamError('sandbox_lost', 'processes are left in a cell that was said to be clean')
  }

  destroy(): Promise<void> {
    this.#gone ??= this.#destroy()
    return this.#gone
  }

  async #destroy(): Promise<void> {
    this.parts.session.close()
    await this.parts.end()
  }

  #holdsAtMost(processes: number): boolean {
    return this.parts.cgroup?.holdsAtMost(processes) ?? this.#countProcesses() <= processes
  }

  #countProcesses(): number {
    const { cgroup, identity, spec } = this.parts
    if (!spec.cell) return 0
    return cgroup === null ? descendants(identity.pid).length + 1 : cgroup.countPids()
  }
}
