/**
 * For tests that look at what was counted in a window of the calendar (the UTC hour of an agent, the UTC day of a tenant):
 * one that ended while they run would leave counters at zero, as it should.
 */
import { setTimeout as pause } from 'node:timers/promises'

export const HOUR_MS = 3_600_000
export const DAY_MS = 24 * HOUR_MS

/** Waits for the next window when the one of now ends within `leftMs`; by the clock of this machine, which Redis shares. */
export async function untilWindowLasts(windowMs: number, leftMs: number): Promise<void> {
  const restMs = windowMs - (Date.now() % windowMs)
  if (restMs < leftMs) await pause(restMs + 1)
}
