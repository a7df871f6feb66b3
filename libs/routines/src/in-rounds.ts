/** Background upkeep that repeats, and a bounded wait for its end. */
import { inTime } from '@cofferdam/contract'

/** Longer than a round trip to a slow server, and short compared to a drain. */
const CLOSE_MS = 2000

/**
 * Resolves when `work` has settled, or after two seconds: BullMQ waits forever for a Redis that is down, but
 * a worker must stop. Another worker repeats what was in flight.
 */
export async function closeWithin(work: Promise<unknown>): Promise<void> {
  await inTime(work, CLOSE_MS, () => new Error('late')).catch(() => undefined)
}

/**
 * Runs `work`, which must not reject, at once and every `ms`. Rounds never overlap: those that were due
 * during a slow round are skipped. Disposing waits at most two seconds for the current round.
 */
export function inRounds(work: () => Promise<void>, ms: number): AsyncDisposable {
  let running: Promise<void> | null = null
  const round = (): void => {
    running ??= work().finally(() => {
      running = null
    })
  }
  round()
  const timer = setInterval(round, ms)
  timer.unref()
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      if (running !== null) await closeWithin(running)
    },
  }
}
