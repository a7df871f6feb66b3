import type { Stats } from '@cofferdam/client'
import { duration } from '../../words/figures.ts'
import { lastKnown } from './stacks.ts'
import { TimeAxis } from './time-axis.tsx'

const STEP = 10
const HEIGHT = 90
/**
 * After a gap, the line starts with a dash of this width. Without it, a figure between two gaps would be
 * invisible.
 */
const LEAST = 4

/** How long attempts waited, by the minute in which they ended. A minute without attempts is a gap. */
export function WaitChart({ stats }: { stats: Stats }) {
  const { wait_p50_ms: median, wait_p95_ms: high } = stats.total
  const most = Math.max(1, ...high.map((figure) => figure ?? 0))
  const width = Math.max(high.length, 1) * STEP
  const [lastMedian, lastHigh] = [lastKnown(median), lastKnown(high)]
  return (
    <figure class="chart">
      <figcaption>
        Wait <span class="muted">at most {duration(most)}</span>
      </figcaption>
      <svg
        viewBox={`0 0 ${width} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Wait by minute in the last hour, median and 95th percentile: at most ${duration(most)}`}
      >
        <path class="line-p95" d={pathOf(high, most)} vector-effect="non-scaling-stroke" />
        <path class="line-p50" d={pathOf(median, most)} vector-effect="non-scaling-stroke" />
      </svg>
      <TimeAxis stats={stats} />
      <ul class="legend">
        <li>
          <span class="swatch swatch-p50" aria-hidden="true" />
          Median <span class="number muted">{lastMedian === null ? '–' : duration(lastMedian)}</span>
        </li>
        <li>
          <span class="swatch swatch-p95" aria-hidden="true" />
          95th percentile <span class="number muted">{lastHigh === null ? '–' : duration(lastHigh)}</span>
        </li>
        <li class="muted">in the last minute with endings</li>
      </ul>
    </figure>
  )
}

/** A line through the known figures, with gaps where there are none. */
function pathOf(figures: readonly (number | null)[], most: number): string {
  return figures
    .map((figure, step) => {
      if (figure === null) return ''
      const [x, y] = [(step + 0.5) * STEP, HEIGHT - 2 - (figure / most) * (HEIGHT - 4)]
      const isFirst = step === 0 || figures[step - 1] === null
      return isFirst ? `M${x - LEAST} ${y.toFixed(1)}h${LEAST}` : `L${x} ${y.toFixed(1)}`
    })
    .join('')
}
