/** Upkeep that is done again and again. */
import { closeWithin } from './close-within.ts'

/**
 * Does `work`, which must not reject, at once and then every `ms`. A round never meets itself, and those that were due while one took
 * its time are not made up for: with Redis away a round takes as long as Redis does. Disposing waits for the one under way, but
 * at most two seconds.
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
