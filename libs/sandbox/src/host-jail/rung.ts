/** One way of starting an agent on this host: what it is called, what holds, and how it starts. */
import type { Capabilities, Isolation } from '@cofferdam/contract'
import type { SlotSpec } from '../warm/index.ts'
import type { JailProcess } from './jail-process.ts'

export interface Launch {
  spec: SlotSpec
  /** An empty folder of the slot's own on the host, removed at its end. */
  folder: string
  /**
   * Whether a cgroup limits memory and processes; else the rung sets resource limits and a stricter filter.
   */
  hasCgroup: boolean
  /** Whom the slot runs as; null for the worker's own user. */
  user: DropTo | null
}

export interface Launched {
  /**
   * Our child, or the starter's: the agent itself, or what holds its namespaces. stdin and stdout are the
   * frame channel.
   */
  child: JailProcess
  /** Host pid of the agent. Rejects when it did not start. */
  agentPid: Promise<number>
  /** What the agent is told with its release, when it was started by `sharedStart`. */
  options?: readonly string[]
}

export interface Rung {
  readonly isolation: Isolation
  /** One line per feature, for doctor. */
  readonly features: readonly string[]
  /** True when the agent is the init of a pid namespace: killing it kills everything. */
  readonly ownsPids: boolean
  /** Limits that the rung itself enforces, besides what a cgroup adds. */
  readonly enforces: Capabilities['enforces']
  /** Network modes that really hold: `none` only where nothing can be reached. */
  readonly network: Capabilities['network']
  /** True when the sandbox must be able to reach and own `folder` as the program's uid. */
  readonly usesFolder: boolean
  /**
   * File systems of the sandbox's own that programs can fill, as paths inside; empty where they write into
   * `folder`.
   */
  readonly ownDisks: readonly string[]
  /** True when the agent finds its own figures in /proc. */
  readonly showsProc: boolean
  /** Rejects when no process can be made. */
  start(launch: Launch): Promise<Launched> | Launched
  /** Ends what the rung keeps between two starts; its slots are gone by then. */
  close?(): Promise<void>
}

/** Processes of an unprivileged id when the worker is root; null keeps the worker's own. */
export interface DropTo {
  uid: number
  gid: number
}
