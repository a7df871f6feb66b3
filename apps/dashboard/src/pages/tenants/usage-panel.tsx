import type { UsageNow } from '@cofferdam/client'
import type { Resource } from '../../api/use-resource.ts'
import { Panel } from '../../parts/panel.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { UseBar } from '../../parts/use-bar.tsx'
import { When } from '../../parts/when.tsx'
import { count } from '../../words/figures.ts'
import type { Load } from './tenant.ts'

/** What is used of each cap now. */
export function UsagePanel({ usage, load }: { usage: Resource<UsageNow>; load: Load | null }) {
  return (
    <Panel title="Used now">
      <ResourceView of={usage} what="the usage" lines={3}>
        {(data) => (
          <>
            <ul class="caps">
              <Use words="Attempts, today" use={data.tenant_daily} resetsAt={data.tenant_daily.resets_at} />
              <Use
                words="Running"
                use={{ used: data.concurrency.running, limit: data.concurrency.limit }}
                resetsAt={null}
              />
              {data.tenant_daily_cpu !== null && (
                <Use
                  words="CPU seconds, today"
                  use={data.tenant_daily_cpu}
                  resetsAt={data.tenant_daily_cpu.resets_at}
                />
              )}
              {data.tenant_daily_cost !== null && (
                <Use
                  words="Cost, today, millionths"
                  use={data.tenant_daily_cost}
                  resetsAt={data.tenant_daily_cost.resets_at}
                />
              )}
            </ul>
            {load !== null && <p class="small">Waiting: {count(load.waiting)}</p>}
            {!data.seeded && (
              <p class="muted small">
                These may be too low: Redis was replaced, and the rows are not counted yet.
              </p>
            )}
          </>
        )}
      </ResourceView>
    </Panel>
  )
}

function Use(props: { words: string; use: { used: number; limit: number }; resetsAt: string | null }) {
  return (
    <UseBar words={props.words} used={props.use.used} limit={props.use.limit}>
      {props.resetsAt !== null && (
        <span class="muted small">
          resets <When at={props.resetsAt} />
        </span>
      )}
    </UseBar>
  )
}
