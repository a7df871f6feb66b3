import type { QueueTenants } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { queryValue } from '../../address/address.ts'
import { read } from '../../api/call.ts'
import { useResource } from '../../api/use-resource.ts'
import { PageHead } from '../../parts/page-head.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { LanePanel } from './lane-panel.tsx'
import type { Queue } from './queue.ts'
import { SortChoice, sortOf } from './sort-choice.tsx'
import { rowsAsked, TenantPanel } from './tenant-panel.tsx'
import { WorkerPanel } from './worker-panel.tsx'

const QUEUE_EVERY_MS = 2000
/** The API itself reads the tenants at most once a second, and more seldom when there are thousands. */
const TENANTS_EVERY_MS = 3000

/**
 * Shows how much each tenant gets and who is next. Rows move by themselves, so a button can hold them still.
 */
export function QueuePage() {
  const [isHeld, setHeld] = useState(false)
  const sort = sortOf()
  const limit = rowsAsked()
  const queue = useResource(
    'queue',
    (signal) => read<Queue>('/v1/queue', { signal }),
    isHeld ? null : QUEUE_EVERY_MS,
  )
  const tenants = useResource(
    `${sort} ${limit}`,
    (signal) => read<QueueTenants>('/v1/queue/tenants', { query: { sort, limit: String(limit) }, signal }),
    isHeld ? null : TENANTS_EVERY_MS,
  )
  return (
    <>
      <PageHead title="Queue">
        <SortChoice current={sort} />
        <button type="button" class="button" aria-pressed={isHeld} onClick={() => setHeld(!isHeld)}>
          {isHeld ? 'Go on' : 'Hold still'}
        </button>
      </PageHead>
      <div class="stack">
        <ResourceView of={queue} what="the lanes and workers" lines={4}>
          {(data) => (
            <div class="overview">
              <LanePanel queue={data} />
              <WorkerPanel queue={data} />
            </div>
          )}
        </ResourceView>
        <ResourceView of={tenants} what="the tenants" lines={8}>
          {(found) => <TenantPanel found={found} chosen={queryValue('tenant')} isHeld={isHeld} />}
        </ResourceView>
      </div>
    </>
  )
}
