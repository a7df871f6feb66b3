/**
 * Counts what an agent still owes, from the frames that go by: its greeting, and one answer for each request. While it owes nothing it
 * says nothing, so nobody has to listen.
 *
 *   to the agent   J, C, K, P, B ─► one more        from it   R, X, Z, A, the last of B ─► one less
 */
import { createFrameDecoder } from '@cofferdam/sandbox/guest'

/** Of libs/sandbox/src/guest/protocol.ts; the others belong to one of these. */
const REQUESTS = 'JCKPB'
const ANSWERS = 'RXZA'
const HEAD_BYTES = 5
const COPIES_END = 'e'.charCodeAt(0)

export interface OwedAnswers {
  readonly none: boolean
  /** Whole frames, as a guest session writes them. */
  sent(frames: Uint8Array): void
  /** Bytes as they come. Throws `protocol_violation`. */
  heard(bytes: Buffer): void
}

/** For one channel from its first byte on. */
export function countOwedAnswers(): OwedAnswers {
  const decoder = createFrameDecoder()
  let owed = 1
  return {
    get none() {
      return owed <= 0
    },
    sent(frames) {
      const view = Buffer.from(frames.buffer, frames.byteOffset, frames.length)
      for (let at = 0; at + HEAD_BYTES <= view.length; at += HEAD_BYTES + view.readUInt32LE(at + 1))
        if (REQUESTS.includes(String.fromCharCode(view[at] ?? 0))) owed += 1
    },
    heard(bytes) {
      for (const { type, payload } of decoder.push(bytes))
        if (ANSWERS.includes(type) || (type === 'B' && payload[0] === COPIES_END)) owed -= 1
    },
  }
}
