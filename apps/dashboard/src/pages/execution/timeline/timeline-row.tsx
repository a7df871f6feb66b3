import { useState } from 'preact/hooks'
import { duration } from '../../../words/figures.ts'
import type { Range } from './use-brush.ts'
import type { Bar } from './waterfall.ts'

/** The width of the drawing in its own units. It is stretched to the cell. */
const WIDTH = 1000
const HEIGHT = 12
/** The smallest width of a bar, so that a step without duration is visible. */
const LEAST = 3
const MOST_DEPTH = 8

interface RowProps {
  bar: Bar
  /** When the timeline starts. */
  startMs: number
  /** The part of the time that is shown, and the part of it that a drag chooses now. */
  view: Range
  drawn: Range | null
  onZoom: (range: Range) => void
}

/** One step. Its name opens the facts that were recorded with it. */
export function TimelineRow({ bar, startMs, view, drawn, onZoom }: RowProps) {
  const [isOpen, setOpen] = useState(false)
  const all = Math.max(view.toMs - view.fromMs, 1)
  const place = (atMs: number): number => Math.min(Math.max(((atMs - view.fromMs) / all) * WIDTH, 0), WIDTH)
  const isSeen = (fromMs: number, toMs: number): boolean => fromMs <= view.toMs && toMs >= view.fromMs
  const rect = (fromMs: number, toMs: number) => {
    const x = Math.min(place(fromMs), WIDTH - LEAST)
    return { x, width: Math.max(place(toMs) - x, LEAST), height: HEIGHT }
  }
  const facts = Object.entries(bar.facts)
  return (
    <>
      <tr class={bar.isCritical ? 'critical' : undefined}>
        <th scope="row" class={`depth-${Math.min(bar.depth, MOST_DEPTH)}`}>
          <button type="button" class="step" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {bar.name}
          </button>
        </th>
        <td class="timeline-bar">
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
            {isSeen(bar.startMs, bar.endMs) && (
              <rect class={`bar-${bar.tone}`} {...rect(bar.startMs, bar.endMs)} />
            )}
            {bar.ticks.map(
              ({ name, atMs }, index) =>
                isSeen(atMs, atMs) && (
                  <rect key={`${name} ${index}`} class="bar-tick" {...rect(atMs, atMs)} />
                ),
            )}
            {drawn !== null && <rect class="bar-chosen" {...rect(drawn.fromMs, drawn.toMs)} />}
          </svg>
        </td>
        <td class="figure number">{duration(bar.endMs - bar.startMs)}</td>
      </tr>
      {isOpen && (
        <tr class="step-facts">
          <td colSpan={3}>
            <dl>
              {bar.service !== '' && <Fact name="service" value={bar.service} />}
              <Fact name="starts after" value={duration(bar.startMs - startMs)} />
              {bar.ticks.map(({ name, atMs }, index) => (
                <Fact key={`${name} ${index}`} name={name} value={`after ${duration(atMs - startMs)}`} />
              ))}
              {facts.map(([name, value]) => (
                <Fact key={name} name={name} value={String(value).slice(0, 1000)} />
              ))}
            </dl>
            {bar.endMs > bar.startMs && (
              <button
                type="button"
                class="button small"
                onClick={() => onZoom({ fromMs: bar.startMs, toMs: bar.endMs })}
              >
                Zoom to this step
              </button>
            )}
          </td>
        </tr>
      )}
    </>
  )
}

const Fact = ({ name, value }: { name: string; value: string }) => (
  <div>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
)
