import type { UsageReport } from '@cofferdam/client'
import { queryValue, withQuery } from '../../address/address.ts'
import { read } from '../../api/call.ts'
import { useResource } from '../../api/use-resource.ts'
import { Cut } from '../../parts/cut.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Empty } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { cost, count, duration } from '../../words/figures.ts'
import { CsvButton } from './csv-button.tsx'
import { tenantPath } from './tenant.ts'

const GROUPS = [
  ['day', 'Day'],
  ['agent', 'Agent'],
  ['backend', 'Backend'],
] as const
type Group = UsageReport['groups'][number]

const BAR_WIDTH = 80
const BAR_HEIGHT = 8

/** What the tenant used in the last 30 days, by day, agent or backend. */
export function UsageReportPanel({ id }: { id: string }) {
  const asked = queryValue('by')
  const by = GROUPS.find(([name]) => name === asked)?.[0] ?? 'day'
  const report = useResource(`${id} ${by}`, (signal) =>
    read<UsageReport>(tenantPath(id, 'usage'), { query: { group_by: by }, signal }),
  )
  return (
    <Panel
      title="Used in 30 days"
      class="flush"
      aside={
        <>
          <nav class="segments" aria-label="Grouped by">
            {GROUPS.map(([name, words]) => (
              <a
                key={name}
                href={withQuery({ by: name === 'day' ? null : name })}
                aria-current={name === by ? 'true' : undefined}
              >
                {words}
              </a>
            ))}
          </nav>
          {report.data !== null && report.data.groups.length > 0 && <CsvButton report={report.data} />}
        </>
      }
    >
      <ResourceView of={report} what="the report" lines={4}>
        {(data) =>
          data.groups.length === 0 ? (
            <Empty title="Nothing was charged in these days." />
          ) : (
            <ReportTable report={data} head={GROUPS.find(([name]) => name === by)?.[1] ?? ''} />
          )
        }
      </ResourceView>
    </Panel>
  )
}

function ReportTable({ report, head }: { report: UsageReport; head: string }) {
  const most = Math.max(...report.groups.map(({ calls }) => calls), 1)
  const groups = report.group_by === 'day' ? report.groups.toReversed() : report.groups
  return (
    <>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Use">
        <table class="rows">
          <thead>
            <tr>
              <th>{head}</th>
              <th class="figure">Attempts</th>
              <th aria-label="Attempts as a bar" />
              <th class="figure">Failed</th>
              <th class="figure">CPU</th>
              <th class="figure">Ran</th>
              <th class="figure">GB s</th>
              <th class="figure">Cost</th>
            </tr>
          </thead>
          <tbody>
            {groups.map((group, index) => (
              <Row key={index} name={group.key ?? '–'} sums={group} share={group.calls / most} />
            ))}
            {groups.length > 1 && <Row name="All" sums={report.total} share={null} />}
          </tbody>
        </table>
      </div>
      {report.truncated && (
        <p class="muted small flush-note">There are more than these. “All” has every one.</p>
      )}
    </>
  )
}

function Row({ name, sums, share }: { name: string; sums: Omit<Group, 'key'>; share: number | null }) {
  return (
    <tr>
      <td>
        <Cut text={name} />
      </td>
      <td class="figure">{count(sums.calls)}</td>
      <td>
        {share !== null && (
          <svg width={BAR_WIDTH} height={BAR_HEIGHT} aria-hidden="true">
            <rect class="bar-run" width={Math.max(share * BAR_WIDTH, 1)} height={BAR_HEIGHT} rx="2" />
          </svg>
        )}
      </td>
      <td class="figure">{count(sums.failed)}</td>
      <td class="figure">{duration(sums.cpu_ms)}</td>
      <td class="figure">{duration(sums.run_ms)}</td>
      <td class="figure">{sums.gb_seconds.toFixed(1)}</td>
      <td class="figure">{cost(sums.cost)}</td>
    </tr>
  )
}
