/** A started container whose agent waits: what the pools hold, and what an execution is bound to. */
import type { GuestReady, GuestSession } from '../guest/index.ts'
import type { CellSlot } from '../warm/index.ts'
import type { ContainerSpec } from './container-options.ts'
import type { HostCounters } from './host-counters.ts'

export interface DockerSlot extends CellSlot {
  readonly spec: ContainerSpec
  /** The container's name. */
  readonly name: string
  readonly session: GuestSession
  readonly ready: GuestReady
  /** Null where the agent's own counters are the better ones, or the only ones. */
  readonly counters: HostCounters | null
  /** The agent's last words on stderr. */
  stderrTail(): string
}

export interface SlotParts {
  spec: ContainerSpec
  name: string
  session: GuestSession
  ready: GuestReady
  counters: HostCounters | null
  /** Resolves when the session is over. */
  closed: Promise<unknown>
  stderrTail(): string
  /** Ends the channel and removes the container; resolves when it is proven gone. */
  destroy(): Promise<void>
}

/** Makes the slot of a container that said that it is ready. */
export function createDockerSlot(parts: SlotParts): DockerSlot {
  const { session } = parts
  let gone: Promise<void> | null = null

  return {
    ...parts,
    get alive() {
      return !session.closed
    },
    onClosed(listener) {
      void parts.closed.then(listener)
    },
    async clean(keep, signal) {
      await session.clean(keep, signal)
    },
    destroy() {
      gone ??= parts.destroy().catch((error: unknown) => {
        // The next caller asks the daemon again.
        gone = null
        throw error
      })
      return gone
    },
  }
}
