/** A clock that moves when told to. Timers run in order, each after the previous one's microtasks. */
import type { Clock } from '../src/clock.ts'

export interface ManualClock extends Clock {
  readonly pending: number
  advance(ms: number): Promise<void>
}

export function createManualClock(): ManualClock {
  let nowMs = 1_000_000
  const timers = new Set<{ atMs: number; run: () => void }>()
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve))

  return {
    nowMs: () => nowMs,
    get pending() {
      return timers.size
    },
    after(ms, run) {
      const timer = { atMs: nowMs + ms, run }
      timers.add(timer)
      return () => void timers.delete(timer)
    },
    async advance(ms) {
      const untilMs = nowMs + ms
      await settle()
      for (;;) {
        const next = [...timers].filter((t) => t.atMs <= untilMs).toSorted((a, b) => a.atMs - b.atMs)[0]
        if (next === undefined) break
        timers.delete(next)
        nowMs = Math.max(nowMs, next.atMs)
        next.run()
        await settle()
      }
      nowMs = untilMs
    },
  }
}
