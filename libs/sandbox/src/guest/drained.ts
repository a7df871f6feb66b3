/** Backpressure of a stream that may be closed while one waits for it. */
import type { Writable } from 'node:stream'

/** Resolves when the stream takes more, or is closed. */
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
