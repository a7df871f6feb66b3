/** The caller's listeners, made harmless: what they throw is logged and never changes how a program ends. */
import type { Attempt, ExecutorLog } from './attempt.ts'

/** The same attempt with listeners that never throw, `onNotice` included. */
export function guardedAttempt(
  attempt: Attempt,
  log: ExecutorLog,
): Attempt & Required<Pick<Attempt, 'onNotice' | 'onProgress'>> {
  const { executionId } = attempt
  const safely = (call: () => void) => {
    try {
      call()
    } catch (error) {
      log.error({ err: error, executionId, attempt: attempt.attempt }, 'a listener threw')
    }
  }
  return {
    ...attempt,
    onOutput: (stream, text) => safely(() => attempt.onOutput(stream, text)),
    onProgress: (progress) => safely(() => attempt.onProgress?.(progress)),
    onHandedOver: () => safely(() => attempt.onHandedOver?.()),
    onNotice: (message) => safely(() => attempt.onNotice?.(message)),
  }
}
