import type { Operations, Tenant } from '@cofferdam/client'
import { pageAddress, queryValue } from '../../address/address.ts'
import { read } from '../../api/call.ts'
import { session } from '../../api/session.ts'
import { useResource } from '../../api/use-resource.ts'
import { OlderAndNewest } from '../../parts/older-and-newest.tsx'
import { PageHead } from '../../parts/page-head.tsx'
import { Empty } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { ToneDot } from '../../parts/standing-dot.tsx'
import { count } from '../../words/figures.ts'
import { loadOf, standingOf, type Load } from './tenant.ts'
import { TenantPage } from './tenant-page.tsx'
import { useQueueTenants } from './use-tenant.ts'

const EVERY_MS = 10_000
const ROWS = '100'
const FIGURES = ['Waiting', 'Running', 'At once', 'A day', 'An hour and agent', 'Weight']

/** All tenants, or one. A key of a tenant sees its own. */
export function TenantsPage({ rest }: { rest: readonly string[] }) {
  const id = rest[0] ?? session.value?.tenant_id
  return id === undefined || id === null ? <TenantList /> : <TenantPage key={id} id={id} />
}

const addressOf = (id: string): string => pageAddress(`/tenants/${encodeURIComponent(id)}`)

function TenantList() {
  const chosen = queryValue('tenant')
  const cursor = queryValue('cursor')
  const queue = useQueueTenants()
  const tenants = useResource(
    `${cursor}`,
    (signal) =>
      read<Operations['listTenants']['result']>('/v1/tenants', { query: { limit: ROWS, cursor }, signal }),
    EVERY_MS,
  )
  return (
    <>
      <PageHead title="Tenants">
        {chosen !== null && (
          <a class="button" href={addressOf(chosen)}>
            Open the chosen tenant
          </a>
        )}
      </PageHead>
      <ResourceView of={tenants} what="the tenants" lines={8}>
        {(data) => (
          <>
            <div class="table-frame">
              {data.tenants.length === 0 ? (
                <Empty title="There are no tenants.">
                  <code>cofferdam tenant create NAME</code> makes one.
                </Empty>
              ) : (
                <table class="rows cards">
                  <thead>
                    <tr>
                      <th>State</th>
                      <th>Tenant</th>
                      <th>Least isolation</th>
                      {FIGURES.map((head) => (
                        <th key={head} class="figure">
                          {head}
                        </th>
                      ))}
                    </tr>
                  </thead>
                  <tbody>
                    {data.tenants.map((tenant) => (
                      <TenantRow
                        key={tenant.policy.tenant_id}
                        tenant={tenant}
                        load={queue.data === null ? null : loadOf(queue.data, tenant.policy.tenant_id)}
                      />
                    ))}
                  </tbody>
                </table>
              )}
            </div>
            <OlderAndNewest cursor={cursor} next={data.next_cursor} />
          </>
        )}
      </ResourceView>
    </>
  )
}

function TenantRow({ tenant, load }: { tenant: Tenant; load: Load | null }) {
  const { policy, caps } = tenant
  const { tone, words, why } = standingOf(tenant)
  const figures = [
    ['waiting', load === null ? '–' : count(load.due)],
    ['running', load === null ? '–' : count(load.running)],
    ['at once', capWords(caps.concurrency)],
    ['a day', capWords(caps.tenant_daily)],
    ['an hour and agent', capWords(caps.agent_hourly)],
    ['weight', count(caps.weight)],
  ] as const
  return (
    <tr>
      <td title={why}>
        <ToneDot tone={tone}>{words}</ToneDot>
      </td>
      <td>
        <a class="cut" href={addressOf(policy.tenant_id)} data-row-link title={policy.tenant_id}>
          {policy.tenant_id}
        </a>
      </td>
      <td>{policy.min_isolation}</td>
      {figures.map(([name, text]) => (
        <td key={name} class="figure" data-name={name}>
          {text}
        </td>
      ))}
    </tr>
  )
}

/** Null stands for the default of the fleet. */
const capWords = (cap: number | null): string => (cap === null ? 'default' : count(cap))
