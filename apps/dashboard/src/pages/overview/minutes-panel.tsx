import type { Resource } from '../../api/use-resource.ts'
import { Panel } from '../../parts/panel.tsx'
import { Empty } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { counted } from '../../words/figures.ts'
import { EndingChart } from './ending-chart.tsx'
import { sumOf } from './stacks.ts'
import type { Figures } from './use-stats.ts'
import { WaitChart } from './wait-chart.tsx'

/** What ended in the last 60 minutes, and how long it had waited. */
export function MinutesPanel({ figures, tenantId }: { figures: Resource<Figures>; tenantId: string | null }) {
  const ended = figures.data === null ? null : sumOf(figures.data.hour.total.count)
  return (
    <Panel
      title="Last 60 minutes"
      class="minutes"
      aside={
        ended !== null && (
          <span class="muted">
            {counted(ended, 'attempt')} ended, {tenantId === null ? 'of all tenants' : `of ${tenantId}`}
          </span>
        )
      }
    >
      <ResourceView of={figures} what="the figures of the last hour" lines={6}>
        {({ hour }) =>
          ended === 0 ? (
            <Empty title="Nothing ended in the last hour.">
              Each minute shows how many executions ended, how, and how long they waited.
            </Empty>
          ) : (
            <>
              {hour.counted_from !== hour.starts_at && (
                <p class="stale" role="status">
                  So much ended that only the newest 50,000 attempts are counted.
                </p>
              )}
              <div class="charts">
                <EndingChart stats={hour} />
                <WaitChart stats={hour} />
              </div>
            </>
          )
        }
      </ResourceView>
    </Panel>
  )
}
