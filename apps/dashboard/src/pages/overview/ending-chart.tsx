import type { Stats } from '@cofferdam/client'
import { pageAddress } from '../../address/address.ts'
import { offsetAt } from '../../choices/choices.ts'
import { count } from '../../words/figures.ts'
import { clock, zoneName } from '../../words/moments.ts'
import { TimeAxis } from './time-axis.tsx'
import { mostOf, stacksOf, sumsOf, type Stack } from './stacks.ts'

const STEP = 10
/** Space between two columns. */
const GAP = 2
const HEIGHT = 90
const TALLEST = HEIGHT - 2

/** A column for each minute, made of its endings, and what each colour stands for. */
export function EndingChart({ stats }: { stats: Stats }) {
  const stacks = stacksOf(stats)
  const most = mostOf(stacks)
  const sums = sumsOf(stacks)
  const width = Math.max(sums.length, 1) * STEP
  const startMs = Date.parse(stats.starts_at)
  return (
    <figure class="chart">
      <figcaption>
        Endings a minute <span class="muted">at most {count(most)}</span>
      </figcaption>
      <svg
        viewBox={`0 0 ${width} ${HEIGHT}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`Endings a minute in the last hour: at most ${most}`}
      >
        {sums.map((sum, step) =>
          sum === 0 ? null : (
            <g key={step}>
              <title>{titleOf(stacks, step, startMs + step * stats.step_ms)}</title>
              {partsOf(stacks, step, most).map(({ key, y, height }) => (
                <rect
                  key={key}
                  class={`ending-${key}`}
                  x={step * STEP}
                  width={STEP - GAP}
                  y={y}
                  height={height}
                />
              ))}
            </g>
          ),
        )}
      </svg>
      <TimeAxis stats={stats} />
      <ul class="legend">
        {stacks.map(({ key, words, total }) => (
          <li key={key}>
            <span class={`swatch ending-${key}`} aria-hidden="true" />
            {key === 'none' || key === 'rest' ? (
              words
            ) : (
              <a href={pageAddress('/executions', { ending: key, within: '1h' })}>{words}</a>
            )}{' '}
            <span class="number muted">{count(total)}</span>
          </li>
        ))}
      </ul>
    </figure>
  )
}

/** The rectangles of one column, from below. */
function partsOf(stacks: readonly Stack[], step: number, most: number) {
  let y = HEIGHT
  return stacks.flatMap(({ key, counts }) => {
    const height = ((counts[step] ?? 0) / most) * TALLEST
    y -= height
    return height === 0 ? [] : [{ key, y, height }]
  })
}

function titleOf(stacks: readonly Stack[], step: number, atMs: number): string {
  const parts = stacks.flatMap(({ words, counts }) => {
    const figure = counts[step] ?? 0
    return figure === 0 ? [] : [`${words} ${count(figure)}`]
  })
  const offset = offsetAt(atMs)
  return `${clock(atMs, offset)} ${zoneName(offset)}: ${parts.join(', ')}`
}
