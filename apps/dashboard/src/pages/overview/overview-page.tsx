import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { pageAddress, queryValue } from '../../address/address.ts'
import { read } from '../../api/call.ts'
import { useResource, type Resource } from '../../api/use-resource.ts'
import { offsetAt } from '../../choices/choices.ts'
import { PageHead } from '../../parts/page-head.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { cost, count, duration } from '../../words/figures.ts'
import { clock, zoneName } from '../../words/moments.ts'
import { LanePanel } from '../queue/lane-panel.tsx'
import type { Queue } from '../queue/queue.ts'
import { WorkerPanel } from '../queue/worker-panel.tsx'
import { AttentionPanel } from './attention-panel.tsx'
import { MinutesPanel } from './minutes-panel.tsx'
import { Sparkline } from './sparkline.tsx'
import { sumOf } from './stacks.ts'
import { useStats, type Figures as Stats } from './use-stats.ts'

const QUEUE_EVERY_MS = 2000

/** The state of the fleet, for whoever is on call. */
export function OverviewPage() {
  const queue = useResource('queue', (signal) => read<Queue>('/v1/queue', { signal }), QUEUE_EVERY_MS)
  const history = useHistory(queue.data)
  const tenantId = queryValue('tenant')
  const stats = useStats(tenantId)
  return (
    <>
      <PageHead title="Overview" />
      <ResourceView of={queue} what="the queue" lines={8}>
        {(data) => (
          <>
            <Figures queue={data} history={history} stats={stats} />
            <div class="overview">
              <AttentionPanel queue={data} />
              <MinutesPanel figures={stats} tenantId={tenantId} />
              <LanePanel queue={data} />
              <WorkerPanel queue={data} />
            </div>
          </>
        )}
      </ResourceView>
    </>
  )
}

function Figures(props: { queue: Queue; history: ReturnType<typeof useHistory>; stats: Resource<Stats> }) {
  const { queue, history, stats } = props
  const lanes = Object.values(queue.lanes)
  const sum = (of: (lane: Queue['lanes']['interactive']) => number): number =>
    lanes.reduce((all, lane) => all + of(lane), 0)
  const slots = queue.workers.reduce((all, worker) => all + worker.slots, 0)
  const oldest = Math.max(...lanes.map((lane) => lane.oldest_age_ms ?? -1))
  return (
    <ul class="figures">
      <Figure name="Running" value={count(sum((lane) => lane.running))} note={`of ${count(slots)} slots`}>
        <Sparkline values={history.running} words="Running since this page was opened" />
      </Figure>
      <Figure
        name="Waiting"
        value={count(sum((lane) => lane.queued))}
        note={`${count(sum((lane) => lane.delayed))} delayed`}
        href={pageAddress('/queue')}
      >
        <Sparkline values={history.waiting} words="Waiting since this page was opened" />
      </Figure>
      <Figure
        name="Oldest wait"
        value={oldest < 0 ? '–' : duration(oldest)}
        note={oldest < 0 ? 'nothing waits' : 'since it was due'}
      />
      <CostToday stats={stats} />
      <Figure name="Workers" value={count(queue.workers.length)} note="with a heartbeat" />
      <Figure name="Outbox" value={count(queue.outbox)} note="records not in the store yet" />
      <Figure
        name="Callbacks"
        value={count(queue.callbacks.due + queue.callbacks.retrying)}
        note={`${count(queue.callbacks.retrying)} retrying`}
      />
    </ul>
  )
}

/** Cost in the operator’s unit. On a busy day, the sum may begin later than midnight (`counted_from`). */
function CostToday({ stats: { data, failure } }: { stats: Resource<Stats> }) {
  const atMs = data === null ? Number.NaN : Date.parse(data.day.counted_from)
  const offset = offsetAt(atMs)
  const since = data === null ? '00:00 UTC' : `${clock(atMs, offset)} ${zoneName(offset)}`
  return (
    <Figure
      name="Cost today"
      value={data === null ? '–' : cost(sumOf(data.day.total.cost))}
      note={data === null && failure !== null ? 'not known' : `since ${since}`}
    />
  )
}

function Figure(props: {
  name: string
  value: string
  note: string
  href?: string
  children?: ComponentChildren
}) {
  return (
    <li class="figure-card">
      <span class="muted small">
        {props.href === undefined ? props.name : <a href={props.href}>{props.name}</a>}
      </span>
      <span class="figure-value number">{props.value}</span>
      <span class="muted small">{props.note}</span>
      {props.children}
    </li>
  )
}

/** Number of readings that are kept: ten minutes at one reading every two seconds. */
const KEPT = 300

interface History {
  running: readonly number[]
  waiting: readonly number[]
}

/** What the page saw since it was opened. It is gone when the page is. */
function useHistory(queue: Queue | null): History {
  const [history, setHistory] = useState<History>({ running: [], waiting: [] })
  useEffect(() => {
    if (queue === null) return
    const lanes = Object.values(queue.lanes)
    const running = lanes.reduce((all, lane) => all + lane.running, 0)
    const waiting = lanes.reduce((all, lane) => all + lane.queued, 0)
    setHistory((before) => ({
      running: [...before.running, running].slice(-KEPT),
      waiting: [...before.waiting, waiting].slice(-KEPT),
    }))
  }, [queue])
  return history
}
