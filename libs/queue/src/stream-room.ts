/** How many entries a live stream may keep, so that it holds no more bytes than it may, however large they are. */
import { QUEUE_BOUNDS } from './bounds.ts'

export interface StreamRoom {
  /** Counts these entries as appended; the number of newest ones, with them, that the stream may keep. */
  keepWith(entries: readonly string[]): number
}

/** For the entries of one attempt; those of earlier ones take half as much at most (append.lua), and go first. */
export function createStreamRoom(): StreamRoom {
  // Bytes of the newest entries, oldest first: at most `eventEntries` numbers.
  const sizes: number[] = []
  let bytes = 0
  let isFull = false
  return {
    keepWith(entries) {
      for (const entry of entries) {
        const size = Buffer.byteLength(entry)
        sizes.push(size)
        bytes += size
      }
      while (bytes > QUEUE_BOUNDS.eventStreamBytes || sizes.length > QUEUE_BOUNDS.eventEntries) {
        isFull ||= bytes > QUEUE_BOUNDS.eventStreamBytes
        bytes -= sizes.shift() ?? 0
      }
      // Until then what others appended (`queued`, `started`, notices) stays too.
      return isFull ? sizes.length : QUEUE_BOUNDS.eventEntries
    },
  }
}
