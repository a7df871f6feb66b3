import type { Operations } from '@cofferdam/client'
import { go, pageAddress, queryValue, withQuery } from '../../address/address.ts'
import { callAddress, read } from '../../api/call.ts'
import { isAdmin } from '../../api/session.ts'
import { useResource } from '../../api/use-resource.ts'
import { OlderAndNewest } from '../../parts/older-and-newest.tsx'
import { PageHead } from '../../parts/page-head.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { FilterBar } from '../executions/filter-bar.tsx'
import { fromOf, listQuery, type ListQuery } from '../executions/filters.ts'
import { EventPanel } from '../tenants/event-panel.tsx'
import { AuditTable } from './audit-table.tsx'

/** The audit rows, or who changed what. */
export function AuditPage() {
  const showsChanges = queryValue('show') === 'changes'
  const query = listQuery()
  const asked = { ...query.filters, ...fromOf(query.within, Date.now()) }
  return (
    <>
      <PageHead title="Audit">
        <nav class="segments" aria-label="What is shown">
          <a href={pageAddress('/audit')} aria-current={showsChanges ? undefined : 'true'}>
            Attempts
          </a>
          <a
            href={pageAddress('/audit', { show: 'changes' })}
            aria-current={showsChanges ? 'true' : undefined}
          >
            Changes
          </a>
        </nav>
        {!showsChanges && (
          <a class="button" href={callAddress('/v1/audit/export', asked)} download="audit.ndjson">
            Export as NDJSON
          </a>
        )}
      </PageHead>
      {showsChanges ? (
        <Changes tenantId={query.filters['tenant_id'] ?? null} />
      ) : (
        <Attempts query={query} asked={asked} />
      )}
    </>
  )
}

/** The audit rows: one for each attempt, as they are stored. */
function Attempts({ query, asked }: { query: ListQuery; asked: Record<string, string> }) {
  const rows = useResource(JSON.stringify(query), (signal) =>
    read<Operations['listInvocations']['result']>('/v1/audit/invocations', {
      query: { ...asked, cursor: query.cursor },
      signal,
    }),
  )
  return (
    <>
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

/** The kinds of events that people most often filter by. The API knows more. */
const KINDS = [
  'caps',
  'sandbox_enabled',
  'key_created',
  'key_revoked',
  'admin_key_created',
  'admin_key_revoked',
  'tenant_cancelled',
]

/** Changes of all tenants and of admin keys. For a tenant’s key, those of its tenant. */
function Changes({ tenantId }: { tenantId: string | null }) {
  const kind = queryValue('kind')
  return (
    <>
      <div class="filter-row filter-bar">
        <select
          aria-label="Kind of change"
          value={kind ?? ''}
          onChange={(event) => go(withQuery({ kind: event.currentTarget.value, cursor: null }))}
        >
          <option value="">All changes</option>
          {KINDS.map((name) => (
            <option key={name} value={name}>
              {name.replaceAll('_', ' ')}
            </option>
          ))}
        </select>
      </div>
      <EventPanel
        path="/v1/events"
        query={{ limit: '50', tenant_id: tenantId, event_type: kind }}
        namesTenant={isAdmin.value}
      />
    </>
  )
}
