/** Waiting that ends, with a signal or after a time. What was waited for goes on: whoever started it owns what it yields. */
import { CofferdamError } from './errors.ts'

/** Settles as `work` does, or rejects with the signal's reason once it aborts. A late rejection of `work` is swallowed. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const onAbort = (): void => aborted.reject(signal.reason)
  if (signal.aborted) onAbort()
  else signal.addEventListener('abort', onAbort, { once: true })
  try {
    return await Promise.race([aborted.promise, work])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/** Settles as `work` does, or rejects with what `late` makes after `ms`. A late rejection of `work` is swallowed. */
export async function inTime<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  const overdue = Promise.withResolvers<never>()
  const timer = setTimeout(() => overdue.reject(late()), ms)
  try {
    return await Promise.race([work, overdue.promise])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * The answer to a call of Redis or Postgres, whose connection may wait for ever. Throws `queue_unavailable` when it fails or takes longer
 * than `ms`; then `late` hears once how the call ended after all, null when it failed. Errors of our own pass.
 */
export async function boundedAnswer<T>(
  call: Promise<T>,
  ms: number,
  what: string,
  late?: (answer: T | null) => void,
): Promise<T> {
  try {
    return await inTime(
      call,
      ms,
      () => new CofferdamError('queue_unavailable', `${what} did not answer in ${ms} ms`),
    )
  } catch (error) {
    call.then(
      (answer) => late?.(answer),
      () => late?.(null),
    )
    if (error instanceof CofferdamError) throw error
    throw new CofferdamError('queue_unavailable', `${what} failed`, { cause: error })
  }
}
