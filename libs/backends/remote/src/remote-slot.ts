/** A sandbox somewhere else in which our guest agent waits: what is the same whoever runs it. */
import type { GuestReady, GuestSession } from '@cofferdam/sandbox/guest'
import type { CellSlot, SlotSpec } from '@cofferdam/sandbox/warm'
import { requireNode } from './require-node.ts'

/** A waiting agent and what its vendor calls the sandbox. */
export interface RemoteSlot extends CellSlot {
  readonly session: GuestSession
  readonly ready: GuestReady
  /** Enough to find it again, without secrets: it goes into the ref. */
  readonly handle: Record<string, string | number>
  /** What the vendor's logs call it; no secret. */
  readonly vendorRef: string
  /** Lets it live for `ms` from now, where the vendor ends it by itself. */
  keep(ms: number): Promise<void>
  /** The agent's last words. */
  stderrTail(): string
}

/**
 * Makes the slot. Throws `capability_missing` where the language of `spec` is too old there. `destroy`
 * resolves when the vendor has said that the sandbox is gone; it is called again when it failed.
 */
export function createRemoteSlot(parts: {
  backend: string
  spec: SlotSpec
  session: GuestSession
  ready: GuestReady
  handle: Record<string, string | number>
  vendorRef: string
  /** Resolves when the session is over. */
  closed: Promise<unknown>
  keep(ms: number): Promise<void>
  stderrTail(): string
  destroy(): Promise<unknown>
}): RemoteSlot {
  const { session } = parts
  requireNode(parts.backend, parts.spec, parts.ready)
  let gone: Promise<void> | null = null
  async function end(): Promise<void> {
    session.close()
    await parts.destroy()
  }
  return {
    spec: parts.spec,
    session,
    ready: parts.ready,
    handle: parts.handle,
    vendorRef: parts.vendorRef,
    keep: (ms) => parts.keep(ms),
    stderrTail: () => parts.stderrTail(),
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
      gone ??= end().catch((error: unknown) => {
        gone = null
        throw error
      })
      return gone
    },
  }
}
