/** The two things that a session waits for besides frames: room in the stream, and an answer that may be called off. */
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

/** The promise's own end, or the signal's reason when that comes first. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) {
    promise.catch(() => {})
    return Promise.reject(signal.reason as Error)
  }
  const aborted = Promise.withResolvers<never>()
  const onAbort = (): void => aborted.reject(signal.reason as Error)
  signal.addEventListener('abort', onAbort, { once: true })
  return Promise.race([promise, aborted.promise]).finally(() => signal.removeEventListener('abort', onAbort))
}
