/**
 * Bytes that arrive in pieces, in one buffer that doubles. A piece costs its own bytes and nothing more, so a
 * guest that sends millions of one-byte frames holds no more memory than the file is large.
 */
const FIRST = 4096

export interface GrowingBytes {
  readonly size: number
  /** Copies the piece, because a frame is a view of the stream's chunk. */
  push(piece: Uint8Array): void
  /** All bytes so far, in a buffer of their own. */
  bytes(): Buffer
}

export function createGrowingBytes(): GrowingBytes {
  let buffer = Buffer.alloc(0)
  let size = 0
  return {
    get size() {
      return size
    },
    push(piece) {
      if (size + piece.length > buffer.length) {
        const larger = Buffer.allocUnsafeSlow(Math.max(FIRST, 2 * buffer.length, size + piece.length))
        buffer.copy(larger, 0, 0, size)
        buffer = larger
      }
      buffer.set(piece, size)
      size += piece.length
    },
    bytes: () => Buffer.from(buffer.subarray(0, size)),
  }
}
