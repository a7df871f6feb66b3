import { now } from '../../parts/when.tsx'
import { duration } from '../../words/figures.ts'
import type { Row } from './row.ts'

const WIDTH = 88
const HEIGHT = 8
/** The smallest width of a part, so that a short wait or run is visible. */
const LEAST = 2

/** One bar with the time that an execution waited (grey) and ran (blue), and both as text. */
export function WaitRunBar({ row }: { row: Row }) {
  const until = row.endedAtMs ?? now.value
  const waited = Math.max(0, (row.startedAtMs ?? until) - row.enqueuedAtMs)
  const ran = row.startedAtMs === null ? 0 : Math.max(0, until - row.startedAtMs)
  const all = Math.max(waited + ran, 1)
  const waitWidth = waited === 0 ? 0 : Math.max((waited / all) * WIDTH, LEAST)
  const runWidth = row.startedAtMs === null ? 0 : Math.max(WIDTH - waitWidth, LEAST)
  return (
    <span class="wait-run" title={`waited ${duration(waited)}, ran ${duration(ran)}`}>
      <svg width={WIDTH} height={HEIGHT} aria-hidden="true">
        <rect class="bar-wait" width={Math.min(waitWidth, WIDTH - runWidth)} height={HEIGHT} rx="2" />
        <rect class="bar-run" x={WIDTH - runWidth} width={runWidth} height={HEIGHT} rx="2" />
      </svg>
      <span class="number wait-words">{duration(waited)}</span>
      <span class="number run-words">{row.startedAtMs === null ? '–' : duration(ran)}</span>
    </span>
  )
}
