/** A sandbox at a vendor in which our guest agent waits, and the channel to it. */
import { Writable, type Readable } from 'node:stream'
import { callbackify } from 'node:util'
import { createGuestSlot, type GuestSlot, type GuestSlotParts } from '@cofferdam/sandbox/backend'
import type { GuestReady } from '@cofferdam/sandbox/guest'
import { requireNode } from './require-node.ts'

/** A process at a vendor whose stdin and stdout are a byte channel. */
export interface Channel {
  readable: Readable
  writable: Writable
  /** What it wrote last to stderr. */
  stderrTail(): string
}

/**
 * A stdin that is written by calls, one after the other. What is written during a call goes with the next
 * one.
 */
export function writableOf(send: (bytes: Buffer) => Promise<void>): Writable {
  const sendThen = callbackify(send)
  return new Writable({
    writev: (chunks, done) => sendThen(Buffer.concat(chunks.map(({ chunk }) => chunk as Buffer)), done),
    write: (chunk: Buffer, _encoding, done) => sendThen(chunk, done),
  })
}

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
  // Not a spread, which would freeze the getter `alive`.
  return Object.assign(createGuestSlot(parts), { vendorRef, ready, keep: (ms: number) => parts.keep(ms) })
}
