import type { Operations } from '@cofferdam/client'
import { read } from '../../api/call.ts'
import { mayChange } from '../../api/session.ts'
import { useResource } from '../../api/use-resource.ts'
import { PageHead } from '../../parts/page-head.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Empty } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { ToneDot } from '../../parts/standing-dot.tsx'
import { BackendTest } from './backend-test.tsx'
import { WorkerReport } from './worker-report.tsx'

type Backend = Operations['listBackends']['result']['backends'][number]

/** Workers renew what they say every 20 s. */
const EVERY_MS = 10_000

/** Where programs can run: what each worker says about each backend. */
export function BackendsPage() {
  const backends = useResource(
    'backends',
    (signal) => read<Operations['listBackends']['result']>('/v1/backends', { signal }),
    EVERY_MS,
  )
  return (
    <>
      <PageHead title="Backends" />
      <ResourceView of={backends} what="the backends" lines={8}>
        {(data) =>
          data.backends.length === 0 ? (
            <div class="table-frame">
              <Empty title="No worker has reported a backend.">
                Workers report theirs when they start, and every 20 s.
              </Empty>
            </div>
          ) : (
            <div class="stack">
              {data.backends.map((backend) => (
                <BackendPanel key={backend.name} backend={backend} />
              ))}
            </div>
          )
        }
      </ResourceView>
    </>
  )
}

function BackendPanel({ backend }: { backend: Backend }) {
  const { name, isolation, available, workers } = backend
  return (
    <Panel
      title={name}
      class="flush"
      aside={
        <>
          <span class="badge">{isolation}</span>
          <ToneDot tone={available ? 'ok' : 'bad'}>{available ? 'Available' : 'Not available'}</ToneDot>
          {mayChange.value && <BackendTest name={name} />}
        </>
      }
    >
      <ul class="reports">
        {workers.map(({ worker, report }) => (
          <WorkerReport key={worker} worker={worker} report={report} />
        ))}
      </ul>
      {workers.length === 0 && <Empty title="No worker reports it." />}
    </Panel>
  )
}
