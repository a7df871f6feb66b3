/** A started sandbox of this host whose agent waits: what warm pools keep, and what a Sandbox is bound to. */
import { CofferdamError, type SessionScope } from '@cofferdam/contract'
import type { GuestSession } from '../guest/index.ts'
import type { CellSlot, SlotSpec } from '../warm/index.ts'
import type { Cgroup, CgroupCounters } from './cgroups.ts'
import { descendants, type ProcessIdentity } from './process-identity.ts'

/** The agent itself: what is in a cell besides the processes that wait for its next program. */
const AGENT_PROCESSES = 1

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
  readonly #listeners: (() => void)[] = []
  #gone: Promise<void> | null = null

  constructor(parts: HostSlotParts) {
    this.parts = parts
    this.spec = parts.spec
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
   * (or below the agent). What waits is counted now, because it changes with the language of the last
   * program. An agent that a program has taken over can hide no more processes in that number than it may
   * keep anyway. A kept interpreter may have kept children of its own, which are then the session's.
   */
  async clean(keep: SessionScope, signal: AbortSignal): Promise<void> {
    const waiting = await this.parts.session.clean(keep, signal)
    if (keep !== 'interpreter' && !this.#holdsAtMost(AGENT_PROCESSES + waiting))
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
    const { cgroup, identity } = this.parts
    return cgroup?.holdsAtMost(processes) ?? descendants(identity.pid).length + 1 <= processes
  }
}
