import { useState } from 'preact/hooks'
import { duration } from '../../../words/figures.ts'
import type { Bar } from './waterfall.ts'

/** The width of the drawing in its own units. It is stretched to the cell. */
const WIDTH = 1000
const HEIGHT = 12
/** The least that is drawn of what took no time. */
const LEAST = 3
const MOST_DEPTH = 8

/** One step. Its name opens the facts that were recorded with it. */
export function TimelineRow({ bar, startMs, endMs }: { bar: Bar; startMs: number; endMs: number }) {
  const [isOpen, setOpen] = useState(false)
  const all = Math.max(endMs - startMs, 1)
  const place = (atMs: number): number => Math.min(Math.max(((atMs - startMs) / all) * WIDTH, 0), WIDTH)
  const from = Math.min(place(bar.startMs), WIDTH - LEAST)
  const width = Math.max(place(bar.endMs) - from, LEAST)
  const facts = Object.entries(bar.facts)
  const hasMore = facts.length > 0 || bar.ticks.length > 0
  return (
    <>
      <tr class={bar.isCritical ? 'critical' : undefined}>
        <th scope="row" class={`depth-${Math.min(bar.depth, MOST_DEPTH)}`}>
          {hasMore ? (
            <button type="button" class="step" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
              {bar.name}
            </button>
          ) : (
            <span class="step">{bar.name}</span>
          )}
        </th>
        <td class="timeline-bar">
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
            <rect class={`bar-${bar.tone}`} x={from} width={width} height={HEIGHT} />
            {bar.ticks.map(({ name, atMs }, index) => (
              <rect key={`${name} ${index}`} class="bar-tick" x={place(atMs)} width={LEAST} height={HEIGHT} />
            ))}
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
