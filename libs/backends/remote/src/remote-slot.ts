/** A sandbox at a vendor in which our guest agent waits. */
import { createGuestSlot, type GuestSlot, type GuestSlotParts } from '@cofferdam/sandbox/backend'
import type { GuestReady } from '@cofferdam/sandbox/guest'
import { requireNode } from './require-node.ts'

export interface RemoteSlot extends GuestSlot {
  readonly vendorRef: string
  /** What the agent said when it was ready. */
  readonly ready: GuestReady
  /** Lets it live for `ms` from now, where the vendor ends it by itself. */
  keep(ms: number): Promise<void>
}

/**
 * Makes the slot. Throws `capability_missing` where the language of `spec` is too old there. `destroy`
 * resolves when the vendor has said that the sandbox is gone; it is called again when it failed.
 */
export function createRemoteSlot(
  parts: Omit<GuestSlotParts, 'watch' | 'holdsAtMost'> &
    Pick<RemoteSlot, 'vendorRef' | 'ready' | 'keep'> & { backend: string },
): RemoteSlot {
  const { backend, spec, ready, vendorRef } = parts
  requireNode(backend, spec, ready)
  // Not a spread: whether the slot is alive is asked anew each time.
  return Object.assign(createGuestSlot(parts), { vendorRef, ready, keep: (ms: number) => parts.keep(ms) })
}
