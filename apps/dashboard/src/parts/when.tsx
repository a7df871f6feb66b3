import { signal } from '@preact/signals'
import { choices, offsetAt } from '../choices/choices.ts'
import { relative } from '../words/figures.ts'
import { dayAndClock, zoneName } from '../words/moments.ts'

/** The present time for all relative times on the page. One timer updates it once a second. */
export const now = signal(Date.now())

/** Further away than this, the day says more than how long ago it was. */
const RELATIVE_MS = 24 * 3_600_000

/** Starts the timer. Returns a function that ends it. */
export function keepTime(): () => void {
  const timer = setInterval(() => {
    if (!document.hidden) now.value = Date.now()
  }, 1000)
  return () => clearInterval(timer)
}

/**
 * A moment relative to now, or its day and time. Its title is the exact time in UTC, and the local time if
 * the browser's zone is chosen.
 */
export function When({ at }: { at: string | number | null }) {
  const atMs = at === null ? Number.NaN : new Date(at).getTime()
  if (Number.isNaN(atMs)) return <span class="muted">–</span>
  const exact = new Date(atMs).toISOString()
  const offset = offsetAt(atMs)
  const onClock = dayAndClock(atMs, offset)
  const isNear = Math.abs(now.value - atMs) < RELATIVE_MS
  const own = choices.value.zone === 'utc' ? '' : `\n${onClock} ${zoneName(offset)}`
  return (
    <time dateTime={exact} title={exact + own}>
      {isNear ? relative(atMs, now.value) : onClock}
    </time>
  )
}
