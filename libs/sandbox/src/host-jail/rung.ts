/** One way to start an agent on this host: its name, its guarantees, and the start. */
import type { Capabilities, Isolation } from '@cofferdam/contract'
import type { SlotSpec } from '../warm/index.ts'
import type { JailProcess } from './jail-process.ts'

export interface Launch {
  spec: SlotSpec
  /** An empty folder of the slot on the host, removed at its end. */
  folder: string
  /** Whether a cgroup limits memory and processes; otherwise the rung sets rlimits and a stricter filter. */
  hasCgroup: boolean
  /** The slot's user; null for the worker's own. */
  user: DropTo | null
}

export interface Launched {
  /**
   * The agent, or the process that holds its namespaces. It is a child of this process or of the starter. Its
   * stdio carries the frames.
   */
  child: JailProcess
  /** Host pid of the agent. Rejects if it did not start. */
  agentPid: Promise<number>
  /** Options that `release` must send to the agent, if `sharedStart` started it. */
  options?: readonly string[]
}

export interface Rung {
  readonly isolation: Isolation
  /** One line per feature, for doctor. */
  readonly features: readonly string[]
  /** Whether the agent is the init of a pid namespace, whose death kills everything. */
  readonly ownsPids: boolean
  /** Limits that the rung itself enforces, besides the cgroup's. */
  readonly enforces: Capabilities['enforces']
  /** Network modes that hold: `none` only if nothing can be reached. */
  readonly network: Capabilities['network']
  /** Whether the program's uid must own and reach `folder`. */
  readonly usesFolder: boolean
  /**
   * Paths inside the sandbox of its own file systems that a program can fill. Empty if programs write to
   * `folder`.
   */
  readonly ownDisks: readonly string[]
  /** Whether the agent can read its own I/O counters in /proc. */
  readonly showsProc: boolean
  /** Rejects if no process can be started. */
  start(launch: Launch): Promise<Launched> | Launched
  /** Ends what the rung keeps between starts, after its slots are gone. */
  close?(): Promise<void>
}

/** Unprivileged IDs for processes if the worker is root; null keeps the worker's own. */
export interface DropTo {
  uid: number
  gid: number
}
