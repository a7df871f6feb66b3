/**
 * Writes frames to the agent with backpressure. The frames of one request never mix with those of the next,
 * even when the caller of the first has stopped waiting.
 */
import type { Writable } from 'node:stream'

/** The frames of one request go out in one write if their total size is at most this, else one by one. */
const ONE_WRITE_MAX = 256 * 1024

/** Resolves when the stream took the frames. Rejects with the reason when the session is over. */
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

/** Resolves when the stream accepts more data, or is closed. */
export function drained(writable: Writable): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      writable.off('drain', done)
      writable.off('close', done)
      resolve()
    }
    writable.on('drain', done)
    writable.on('close', done)
  })
}
