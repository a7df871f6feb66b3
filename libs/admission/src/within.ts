/** A bound on how long a call is waited for. The call itself goes on: whoever gave up hears of its end through `late`. */
import { CofferdamError } from '@cofferdam/contract'

/**
 * Resolves with `pending`, or throws CofferdamError('queue_unavailable') when it fails or takes longer than `timeoutMs`.
 * In both cases, `late` is called once, when the outcome is known: with the value, or with null when it failed.
 */
export async function within<T>(
  pending: Promise<T>,
  timeoutMs: number,
  what: string,
  late?: (value: T | null) => void,
): Promise<T> {
  const { promise: tooSlow, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => reject(new CofferdamError('queue_unavailable', `${what} did not answer in ${timeoutMs} ms`)),
    timeoutMs,
  )
  try {
    return await Promise.race([pending, tooSlow])
  } catch (error) {
    pending.then(
      (value) => late?.(value),
      () => late?.(null),
    )
    if (error instanceof CofferdamError) throw error
    throw new CofferdamError('queue_unavailable', `${what} failed`, { cause: error })
  } finally {
    clearTimeout(timer)
  }
}
