import { pageAddress } from '../../address/address.ts'
import { ToneDot } from '../../parts/standing-dot.tsx'
import { When } from '../../parts/when.tsx'
import { count, duration } from '../../words/figures.ts'
import type { QueueTenant } from './queue.ts'
import { largestShare, ShareBar } from './share-bar.tsx'
import { standingOf } from './standing.ts'

/** One row for each tenant, in the order of the API. `chosen` is the tenant at the top of the page. */
export function TenantTable(props: { tenants: readonly QueueTenant[]; chosen: string | null }) {
  const most = largestShare(props.tenants)
  return (
    <table class="rows cards tenants">
      <thead>
        <tr>
          <th class="figure">Place</th>
          <th>Tenant</th>
          <th>Got and due, last minute</th>
          <th class="figure">Waiting</th>
          <th class="figure">Delayed</th>
          <th class="figure">Running</th>
          <th class="figure">Oldest wait</th>
          <th class="figure" title="Slot seconds by weight that it had beyond the fleet's virtual clock">
            Ahead
          </th>
          <th>Standing</th>
        </tr>
      </thead>
      <tbody>
        {props.tenants.map((tenant) => (
          <TenantRow
            key={tenant.tenant_id}
            tenant={tenant}
            most={most}
            isChosen={tenant.tenant_id === props.chosen}
          />
        ))}
      </tbody>
    </table>
  )
}

function TenantRow(props: { tenant: QueueTenant; most: number; isChosen: boolean }) {
  const { tenant, most, isChosen } = props
  const { tenant_id: id, concurrency, weight, oldest_age_ms: oldest, virtual_lag: ahead } = tenant
  return (
    <tr class={isChosen ? 'chosen' : undefined}>
      <td class="figure" data-name="place">
        {tenant.place ?? '–'}
      </td>
      <td class="cell-tenant">
        <a
          class="cut"
          href={pageAddress('/executions', { tenant: id, status: 'live' })}
          title={`What ${id} has waiting and running`}
          data-row-link
        >
          {id}
        </a>
        {weight !== 1 && <span class="badge">weight {weight}</span>}
      </td>
      <td class="wide">
        <ShareBar tenant={tenant} most={most} />
      </td>
      <td class="figure" data-name="waiting">
        {count(tenant.waiting)}
      </td>
      <td class="figure" data-name="delayed">
        {count(tenant.delayed)}
      </td>
      <td class="figure" data-name="running">
        {count(tenant.running)}
        {concurrency !== null && <span class="muted"> of {count(concurrency)}</span>}
      </td>
      <td class="figure" data-name="oldest">
        {oldest === null ? '–' : duration(oldest)}
      </td>
      <td class="figure" data-name="ahead">
        {ahead === null ? '–' : ahead.toFixed(1)}
      </td>
      <td class="wide">
        <Standing tenant={tenant} />
      </td>
    </tr>
  )
}

function Standing({ tenant }: { tenant: QueueTenant }) {
  const { tone, words } = standingOf(tenant)
  return (
    <span class="tenant-standing">
      <a
        href={pageAddress(`/tenants/${encodeURIComponent(tenant.tenant_id)}`)}
        title={`Caps of ${tenant.tenant_id}, and its stop`}
      >
        <ToneDot tone={tone}>{words}</ToneDot>
      </a>
      {tenant.parked_until !== null && (
        <span class="muted small">
          until <When at={tenant.parked_until} />
        </span>
      )}
    </span>
  )
}
