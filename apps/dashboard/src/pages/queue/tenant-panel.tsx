import type { QueueTenants } from '@cofferdam/client'
import { queryValue, withQuery } from '../../address/address.ts'
import { Panel } from '../../parts/panel.tsx'
import { Empty } from '../../parts/problem.tsx'
import { When } from '../../parts/when.tsx'
import { count, counted } from '../../words/figures.ts'
import { NOT_SERVED, standingOf } from './standing.ts'
import { TenantTable } from './tenant-table.tsx'

/**
 * Rows that the page asks for at first, and when the user asks for more. The second number is the most that
 * the API returns at once.
 */
const FEW = 100
const MOST = 500

/** How many rows the address asks for. */
export const rowsAsked = (): number => (queryValue('rows') === String(MOST) ? MOST : FEW)

/** The tenants with work, and what the figures leave out. */
export function TenantPanel(props: { found: QueueTenants; chosen: string | null; isHeld: boolean }) {
  const { found, chosen, isHeld } = props
  const { tenants, total, at } = found
  const isShown = tenants.some(({ tenant_id: id }) => id === chosen)
  return (
    <Panel
      title="Tenants"
      class="flush"
      aside={
        <span class="muted">
          {counted(total, 'tenant')} with work, {isHeld ? 'held still, ' : ''}read <When at={at} />
        </span>
      }
    >
      <Notes found={found} />
      {chosen !== null && tenants.length > 0 && !isShown && (
        <p class="note">
          {tenants.length === total
            ? `${chosen} has nothing waiting or running.`
            : `${chosen} is not among the rows that are shown.`}
        </p>
      )}
      {tenants.length === 0 ? (
        <Empty title="Nothing waits or runs.">Tenants appear here while they have work.</Empty>
      ) : (
        <TenantTable tenants={tenants} chosen={chosen} />
      )}
      {tenants.length < total && (
        <p class="note more-rows">
          The first {count(tenants.length)} of {count(total)} tenants in this order are shown.
          {tenants.length < MOST && (
            <a class="button" href={withQuery({ rows: String(MOST) })}>
              Show {count(Math.min(total, MOST))}
            </a>
          )}
        </p>
      )}
    </Panel>
  )
}

/** Notes on what the figures leave out, and on tenants that are not served. */
function Notes({ found }: { found: QueueTenants }) {
  const isUnserved = found.tenants.some((tenant) => standingOf(tenant).words === NOT_SERVED)
  const isAway = found.tenants.some(({ share_1m: got }) => got === null)
  return (
    <>
      {!found.complete && (
        <p class="stale" role="status">
          There are more tenants or running executions than one reading takes, so places and due shares are
          too good.
        </p>
      )}
      {isAway && (
        <p class="stale" role="status">
          Postgres does not answer: what each tenant got, and caps of 0, are not known now.
        </p>
      )}
      {isUnserved && (
        <p class="note">
          {NOT_SERVED}: its runs are long, its sessions are in use, or no worker can run what it has. The page
          of one of its executions says why.
        </p>
      )}
    </>
  )
}
