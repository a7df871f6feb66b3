import type { ExecutionState } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { jaegerLink } from '../../../parts/jaeger-link.tsx'
import { Panel } from '../../../parts/panel.tsx'
import { now } from '../../../parts/when.tsx'
import { duration } from '../../../words/figures.ts'
import { useTrace } from '../use-execution.ts'
import { TimelineRow } from './timeline-row.tsx'
import { useBrush, type Range } from './use-brush.ts'
import { waterfallOf } from './waterfall.ts'

/** Rows that are shown at first. */
const SHOWN = 60

/** Where the time went: the wait in grey, the work in blue, each span below its parent. A drag zooms in. */
export function TimelinePanel({ state }: { state: ExecutionState }) {
  const [hasSpans, setHasSpans] = useState(false)
  const [showsAll, setShowsAll] = useState(false)
  const [zoom, setZoom] = useState<Range | null>(null)
  const isEnded = state.status === 'ended'
  const trace = useTrace(state, !isEnded || hasSpans || isOld(state, now.value))
  const spans = isEnded ? (trace.data?.spans ?? []) : []
  const { bars, startMs, endMs, isCoarse } = waterfallOf(state, spans, null, isEnded ? 0 : now.value)
  if (!isCoarse !== hasSpans) setHasSpans(!isCoarse)
  const view = zoom ?? { fromMs: startMs, toMs: endMs }
  const { drawn, listeners } = useBrush(view, setZoom)
  const shown = showsAll ? bars : bars.slice(0, SHOWN)
  return (
    <Panel
      title="Timeline"
      class="flush"
      aside={
        <>
          {isCoarse && isEnded && <span class="badge">coarse: no spans are kept</span>}
          {zoom !== null && (
            <button type="button" class="button small" onClick={() => setZoom(null)}>
              Show all {duration(endMs - startMs)}
            </button>
          )}
          <span class="muted">
            {duration(view.toMs - view.fromMs)} {zoom === null ? 'in all' : 'shown'}
          </span>
          {jaegerLink(state.result?.trace_id, 'Open in Jaeger')}
        </>
      }
    >
      <table class="timeline">
        <colgroup>
          <col class="col-step" />
          <col />
          <col class="col-time" />
        </colgroup>
        <thead class="unseen">
          <tr>
            <th>Step</th>
            <th>Bar</th>
            <th>Time</th>
          </tr>
        </thead>
        <tbody {...listeners}>
          {shown.map((bar) => (
            <TimelineRow
              key={bar.id}
              bar={bar}
              startMs={startMs}
              view={view}
              drawn={drawn}
              onZoom={setZoom}
            />
          ))}
        </tbody>
      </table>
      {bars.length > shown.length && (
        <button type="button" class="button more" onClick={() => setShowsAll(true)}>
          {bars.length - shown.length} more spans
        </button>
      )}
    </Panel>
  )
}

/**
 * Whether the execution ended so long ago that no spans will be stored any more. They arrive within seconds
 * of the end, or never.
 */
function isOld(state: ExecutionState, nowMs: number): boolean {
  const { result } = state
  if (result === null) return false
  return nowMs > Date.parse(state.enqueued_at) + result.queue_ms + result.duration_ms + 30_000
}
