/** A started container whose agent waits: what the pools hold, and what an execution is bound to. */
import { setTimeout as sleep } from 'node:timers/promises'
import { CofferdamError, type SessionScope } from '@cofferdam/contract'
import type { GuestReady, GuestSession } from '@cofferdam/guest'
import type { CellSlot } from '../warm/index.ts'
import type { ContainerSpec } from './container-options.ts'

// Killing and wiping 64 MiB in 16 Ki files takes a second under half a CPU (measured 0.4 s idle); a wedged agent never answers.
const CLEAN_WITHIN_MS = 10_000

export interface DockerSlot extends CellSlot {
  readonly spec: ContainerSpec
  /** The container's name. */
  readonly name: string
  readonly session: GuestSession
  readonly ready: GuestReady
  /** The agent's last words on stderr. */
  stderrTail(): string
}

export interface SlotParts {
  spec: ContainerSpec
  name: string
  session: GuestSession
  ready: GuestReady
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

  async function clean(keep: SessionScope): Promise<void> {
    const stop = new AbortController()
    const late = sleep(CLEAN_WITHIN_MS, undefined, { signal: stop.signal, ref: false }).then(() => {
      throw new CofferdamError('sandbox_lost', undefined, {
        details: { reason: 'the agent did not finish cleaning' },
      })
    })
    late.catch(() => {})
    try {
      await Promise.race([session.clean(keep), late])
    } finally {
      stop.abort()
    }
  }

  return {
    ...parts,
    get alive() {
      return !session.closed
    },
    onClosed(listener) {
      void parts.closed.then(listener)
    },
    clean,
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
