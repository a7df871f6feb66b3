import { signal } from '@preact/signals'
import { relative } from '../words/figures.ts'

/** The time of all relative moments on the page. One timer moves them together, once a second. */
export const now = signal(Date.now())

/** Starts the timer. Returns a function that ends it. */
export function keepTime(): () => void {
  const timer = setInterval(() => {
    if (!document.hidden) now.value = Date.now()
  }, 1000)
  return () => clearInterval(timer)
}

/** A moment relative to now, with the exact time in UTC as its title. */
export function When({ at }: { at: string | number | null }) {
  if (at === null) return <span class="muted">–</span>
  const moment = new Date(at)
  if (Number.isNaN(moment.getTime())) return <span class="muted">–</span>
  const exact = moment.toISOString()
  return (
    <time dateTime={exact} title={exact}>
      {relative(moment.getTime(), now.value)}
    </time>
  )
}
