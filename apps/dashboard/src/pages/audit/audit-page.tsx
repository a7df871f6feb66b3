import type { Operations } from '@cofferdam/client'
import { callAddress, read } from '../../api/call.ts'
import { useResource } from '../../api/use-resource.ts'
import { OlderAndNewest } from '../../parts/older-and-newest.tsx'
import { PageHead } from '../../parts/page-head.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { FilterBar } from '../executions/filter-bar.tsx'
import { fromOf, listQuery } from '../executions/filters.ts'
import { AuditTable } from './audit-table.tsx'

/** The audit rows: one for each attempt, as they are stored. */
export function AuditPage() {
  const query = listQuery()
  const asked = { ...query.filters, ...fromOf(query.within, Date.now()) }
  const rows = useResource(JSON.stringify(query), (signal) =>
    read<Operations['listInvocations']['result']>('/v1/audit/invocations', {
      query: { ...asked, cursor: query.cursor },
      signal,
    }),
  )
  return (
    <>
      <PageHead title="Audit">
        <a class="button" href={callAddress('/v1/audit/export', asked)} download="audit.ndjson">
          Export as NDJSON
        </a>
      </PageHead>
      <div class="filter-row">
        <FilterBar query={query} showsStates={false} />
      </div>
      <ResourceView of={rows} what="the audit rows" lines={12}>
        {(data) => (
          <>
            <AuditTable rows={data.invocations} />
            <OlderAndNewest cursor={query.cursor} next={data.next_cursor} />
          </>
        )}
      </ResourceView>
    </>
  )
}
