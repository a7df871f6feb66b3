/**
 * For tests of counters of a calendar window, such as a UTC hour or day. If the window ended during the test,
 * the counters would correctly be zero.
 */
import { setTimeout as pause } from 'node:timers/promises'

export const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS

/** Waits for the next window if this one ends within `leftMs` (this machine's clock, which Redis shares). */
export async function untilWindowLasts(windowMs: number, leftMs: number): Promise<void> {
  const restMs = windowMs - (Date.now() % windowMs)
  if (restMs < leftMs) await pause(restMs + 1)
}
