import { Panel } from '../../parts/panel.tsx'
import { count, duration } from '../../words/figures.ts'
import type { Queue } from './queue.ts'

/** What waits and runs in each lane. */
export function LanePanel({ queue }: { queue: Queue }) {
  return (
    <Panel title="Lanes" class="flush">
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Lanes">
        <table class="rows">
          <thead>
            <tr>
              <th>Lane</th>
              <th class="figure">Waiting</th>
              <th class="figure">Delayed</th>
              <th class="figure">Running</th>
              <th class="figure">Window</th>
              <th class="figure">Oldest</th>
            </tr>
          </thead>
          <tbody>
            {Object.entries(queue.lanes).map(([name, lane]) => (
              <tr key={name}>
                <td>{name}</td>
                <td class="figure">{count(lane.queued)}</td>
                <td class="figure">{count(lane.delayed)}</td>
                <td class="figure">{count(lane.running)}</td>
                <td class="figure">{count(lane.window)}</td>
                <td class="figure">{lane.oldest_age_ms === null ? '–' : duration(lane.oldest_age_ms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  )
}
