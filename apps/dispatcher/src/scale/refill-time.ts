/**
 * The time in which a pool replaces a claimed pod, measured at the sandboxes that sessions got. A session
 * that found no spare waited for a pod of its own, which starts like a replacement.
 */

/**
 * A sandbox that took this long was started cold. The slowest adoption of a spare that Agent Sandbox
 * reports took 3.2 s (p90 of 300 claims at once), the fastest cold start 11 s.
 */
const COLD_MS = 5_000
/** Above two minutes a node or an image is missing, and more spare pods do not help. */
const LONGEST_SECONDS = 120
/** Weight of the newest measurement: after ten the older ones hardly count. */
const WEIGHT = 0.2
/**
 * A measurement fades into the configured time. Otherwise one crowded minute, in which pods started slowly,
 * would keep the pool so large that no cold start ever corrects it.
 */
const FADE_SECONDS = 3_600

export interface RefillTime {
  /** A session's sandbox was ready `tookMs` after it was asked for. */
  sandboxReady(tookMs: number, nowMs: number): void
  seconds(nowMs: number): number
}

/** `configured` is used until a cold start is measured, in seconds. */
export function createRefillTime(configured: number): RefillTime {
  let measured = configured
  let atMs = 0
  const seconds = (nowMs: number): number =>
    configured + (measured - configured) * Math.exp(-Math.max(0, nowMs - atMs) / 1000 / FADE_SECONDS)
  return {
    sandboxReady(tookMs, nowMs) {
      if (tookMs < COLD_MS) return
      const before = seconds(nowMs)
      measured = before + WEIGHT * (Math.min(tookMs / 1000, LONGEST_SECONDS) - before)
      atMs = nowMs
    },
    seconds,
  }
}
