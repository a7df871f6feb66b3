/** A sandbox at a vendor with a waiting guest agent, and the channel to it. */
import { Writable, type Readable } from 'node:stream'
import { callbackify } from 'node:util'
import { createGuestSlot, type GuestSlot, type GuestSlotParts } from '@cofferdam/sandbox/backend'
import type { GuestReady } from '@cofferdam/sandbox/guest'
import { requireNode } from './require-node.ts'

/** The stdin and stdout of a process at a vendor, as a byte channel. */
export interface Channel {
  readable: Readable
  writable: Writable
  /** The end of its stderr. */
  stderrTail(): string
}

/** A stdin that is written by one call at a time. Data that comes during a call goes with the next. */
export function writableOf(send: (bytes: Buffer) => Promise<void>): Writable {
  const sendThen = callbackify(send)
  return new Writable({
    writev: (chunks, done) => sendThen(Buffer.concat(chunks.map(({ chunk }) => chunk as Buffer)), done),
    write: (chunk: Buffer, _encoding, done) => sendThen(chunk, done),
  })
}

export interface RemoteSlot extends GuestSlot {
  readonly vendorRef: string
  /** The agent's ready frame. */
  readonly ready: GuestReady
  /** Lets it live for `ms` from now, if the vendor ends sandboxes by itself. */
  keep(ms: number): Promise<void>
}

/**
 * Throws `capability_missing` if the sandbox's Node.js is too old for the language of `spec`. `destroy`
 * resolves when the vendor confirmed the end, and is called again after a failure.
 */
export function createRemoteSlot(
  parts: Omit<GuestSlotParts, 'watch' | 'holdsAtMost'> &
    Pick<RemoteSlot, 'vendorRef' | 'ready' | 'keep'> & { backend: string },
): RemoteSlot {
  const { backend, spec, ready, vendorRef } = parts
  requireNode(backend, spec, ready)
  // A spread would freeze the getter `alive`.
  return Object.assign(createGuestSlot(parts), { vendorRef, ready, keep: (ms: number) => parts.keep(ms) })
}
