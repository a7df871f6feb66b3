import type { Stats } from '@cofferdam/client'

const clock = (at: string): string => new Date(at).toISOString().slice(11, 16)

/** When a chart begins and ends, in UTC. */
export function TimeAxis({ stats }: { stats: Stats }) {
  return (
    <p class="time-axis muted small">
      <time dateTime={stats.starts_at}>{clock(stats.starts_at)}</time>
      <span>UTC</span>
      <time dateTime={stats.ends_at}>{clock(stats.ends_at)}</time>
    </p>
  )
}
