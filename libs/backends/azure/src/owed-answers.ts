/**
 * Counts the answers that an agent still has to send: its greeting, and one for each request. While the agent
 * owes no answer it sends nothing, so nobody has to poll.
 *
 *   to the agent   J, C, K, P, B ─► one more        from it   R, X, Z, A, the last of B ─► one less
 */
import { createFrameDecoder } from '@cofferdam/sandbox/guest'

/**
 * Frame types of requests, and then of answers, in libs/sandbox/src/guest/protocol.ts. A frame of any other
 * type is part of one of these.
 */
const REQUESTS = 'JCKPB'
const ANSWERS = 'RXZA'
const HEAD_BYTES = 5
const COPIES_END = 'e'.charCodeAt(0)

export interface OwedAnswers {
  readonly none: boolean
  /** Takes whole frames, as a guest session writes them. */
  sent(frames: Uint8Array): void
  /** Takes bytes as they arrive. Throws `protocol_violation`. */
  heard(bytes: Buffer): void
}

/**
 * Counts the answers that the agent of one channel owes. Must see the channel's bytes from the first one on.
 */
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
