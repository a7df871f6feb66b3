import type { Stats } from '@cofferdam/client'
import { offsetAt } from '../../choices/choices.ts'
import { clock, zoneName } from '../../words/moments.ts'

/** When a chart begins and ends. */
export function TimeAxis({ stats }: { stats: Stats }) {
  const endMs = Date.parse(stats.ends_at)
  const offset = offsetAt(endMs)
  return (
    <p class="time-axis muted small">
      <time dateTime={stats.starts_at} title={stats.starts_at}>
        {clock(Date.parse(stats.starts_at), offset)}
      </time>
      <span>{zoneName(offset)}</span>
      <time dateTime={stats.ends_at} title={stats.ends_at}>
        {clock(endMs, offset)}
      </time>
    </p>
  )
}
