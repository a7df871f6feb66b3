/** Background upkeep that repeats, and a bounded wait for its end. */
import { inTime } from '@cofferdam/contract'

/** Longer than a round trip to a slow server, and short compared to a drain. */
const CLOSE_MS = 2000

/**
 * Resolves when `work` has settled, or after two seconds. BullMQ waits for ever for a Redis that is down, but
 * a worker that stops must not. Another worker repeats what was in flight.
 */
export async function closeWithin(work: Promise<unknown>): Promise<void> {
  await inTime(work, CLOSE_MS, () => new Error('late')).catch(() => undefined)
}

/**
 * Runs `work`, which must not reject, now and then every `ms`. Rounds never overlap, and rounds that were due
 * during a slow one are skipped. Disposing waits at most two seconds for the current round.
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
