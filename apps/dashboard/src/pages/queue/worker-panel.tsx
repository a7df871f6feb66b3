import { Panel } from '../../parts/panel.tsx'
import { Empty } from '../../parts/problem.tsx'
import { counted, duration } from '../../words/figures.ts'
import type { Queue } from './queue.ts'

/** The workers with a heartbeat, and how many of their slots are taken. A long list scrolls. */
export function WorkerPanel({ queue }: { queue: Queue }) {
  const { workers } = queue
  return (
    <Panel
      title="Workers"
      class="flush"
      aside={workers.length > 0 && <span class="muted">{slotWords(workers)}</span>}
    >
      {workers.length === 0 ? (
        <Empty title="No worker has a heartbeat.">What is enqueued waits until one starts.</Empty>
      ) : (
        <div class="scroll-x workers" tabIndex={0} role="region" aria-label="Workers">
          <table class="rows">
            <thead>
              <tr>
                <th>Worker</th>
                <th>Slots</th>
                <th class="figure">Last seen</th>
              </tr>
            </thead>
            <tbody>
              {workers.map((worker) => (
                <tr key={worker.worker_id}>
                  <td>
                    <span class="cut mono" title={worker.worker_id}>
                      {worker.worker_id}
                    </span>
                  </td>
                  <td class="nowrap">
                    <meter
                      aria-label="Slots in use"
                      min={0}
                      max={Math.max(worker.slots, 1)}
                      value={Math.min(worker.running, worker.slots)}
                    />{' '}
                    <span class="number">
                      {worker.running} of {worker.slots}
                    </span>
                  </td>
                  <td class="figure">{duration(worker.last_seen_ms)} ago</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  )
}

function slotWords(workers: Queue['workers']): string {
  const slots = workers.reduce((sum, worker) => sum + worker.slots, 0)
  return `${counted(workers.length, 'worker')}, ${counted(slots, 'slot')}`
}
