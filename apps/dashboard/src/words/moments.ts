/** Moments as a clock on the wall shows them. `offset` is how far that clock is from UTC, in minutes. */

const shifted = (atMs: number, offset: number): string => new Date(atMs + offset * 60_000).toISOString()

/** `10:57`. */
export const clock = (atMs: number, offset: number): string => shifted(atMs, offset).slice(11, 16)

/** `2026-11-27 10:57`. */
export const dayAndClock = (atMs: number, offset: number): string =>
  shifted(atMs, offset).slice(0, 16).replace('T', ' ')

/** The zone of such a clock: `UTC`, `UTC+1`, `UTC−3:30`. */
export function zoneName(offset: number): string {
  if (offset === 0) return 'UTC'
  const minutes = Math.abs(offset) % 60
  const hours = Math.floor(Math.abs(offset) / 60)
  const rest = minutes === 0 ? '' : `:${String(minutes).padStart(2, '0')}`
  return `UTC${offset < 0 ? '−' : '+'}${hours}${rest}`
}
