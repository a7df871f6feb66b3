/** The order in which frames go to the agent: those of one request never mix with those of the next, also when nobody waits for the first any more. */
import type { Writable } from 'node:stream'
import { drained } from './drained.ts'

/** What is smaller goes in one write, the whole of a bound job mostly; what is larger, frame by frame with backpressure. */
const ONE_WRITE_MAX = 256 * 1024

/** Resolves when the stream took the frames; rejects with what `whyOver` says of a session that is over. */
export type SendFrames = (frames: readonly Buffer[]) => Promise<void>

export function createFrameWriter(writable: Writable, whyOver: () => Error | null): SendFrames {
  let sent: Promise<unknown> = Promise.resolve()

  async function write(frames: readonly Buffer[]): Promise<void> {
    const total = frames.reduce((sum, frame) => sum + frame.length, 0)
    const parts = total <= ONE_WRITE_MAX ? [Buffer.concat(frames, total)] : frames
    for (const part of parts) {
      const reason = whyOver()
      if (reason !== null) throw reason
      if (!writable.write(part)) await drained(writable)
    }
  }

  return (frames) => {
    const mine = sent.then(() => write(frames))
    sent = mine.catch(() => {})
    return mine
  }
}
