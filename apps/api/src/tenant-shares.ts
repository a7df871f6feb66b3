/** Rows of GET /v1/queue/tenants: what the scheduler knows of tenants, with the work that each got lately. */
import {
  FLEET_DEFAULTS,
  isCofferdamError,
  type QueueTenant,
  type QUEUE_TENANT_SORTS,
} from '@cofferdam/contract'
import { standings, type TenantFigures, type TenantsSnapshot } from '@cofferdam/queue'
import type { RouteContext } from './route-context.ts'

/** The period over which the share of a tenant is measured. */
const SHARE_MS = 60_000

/** A row without the fields that are read only for the rows in the answer. */
export type TenantRow = Omit<QueueTenant, 'oldest_age_ms' | 'kill_switch'>

export interface TenantRows {
  atMs: number
  rows: TenantRow[]
  complete: boolean
}

/** All rows, in no order. Reads Redis and Postgres; without Postgres nobody's share is known. */
export async function readTenantRows(context: RouteContext): Promise<TenantRows> {
  const snapshot = await context.producer.tenants()
  const work = await unlessAway(context.store.recentWork(snapshot.atMs - SHARE_MS, snapshot.atMs))
  const shareOf = work === null ? () => null : sharesOf(work, snapshot)
  const standing = standings(snapshot.tenants)
  const rows = snapshot.tenants.map((tenant): TenantRow => {
    const { dueShare = 0, virtualLag = null, place = null } = standing.get(tenant.tenantId) ?? {}
    return {
      ...countsOf(tenant),
      share_1m: shareOf(tenant.tenantId),
      due_share: dueShare,
      virtual_lag: virtualLag,
      place,
      parked_until: tenant.parkedUntilMs === null ? null : new Date(tenant.parkedUntilMs).toISOString(),
    }
  })
  return { atMs: snapshot.atMs, rows, complete: snapshot.complete }
}

/** Resolves with null if the store does not answer. Other failures are thrown. */
export async function unlessAway<T>(read: Promise<T>): Promise<T | null> {
  try {
    return await read
  } catch (error) {
    if (isCofferdamError(error) && error.code === 'store_unavailable') return null
    throw error
  }
}

function countsOf({ tenantId, waiting, delayed, running, weight, concurrency, maxQueued }: TenantFigures) {
  return {
    tenant_id: tenantId,
    waiting: waiting.interactive + waiting.routine,
    delayed,
    running,
    concurrency: concurrency === FLEET_DEFAULTS.concurrency ? null : concurrency,
    max_queued: maxQueued,
    weight,
  }
}

/**
 * Each tenant's share of the workers' time. Attempts that ended come from the audit rows (`work`), running
 * ones from the queue. Between its audit row and its ending in the queue, an attempt counts twice.
 */
function sharesOf(work: Map<string, number>, { atMs, held }: TenantsSnapshot): (tenant: string) => number {
  const busy = new Map(work)
  for (const { tenantId, sinceMs } of held) {
    const heldMs = Math.max(0, Math.min(SHARE_MS, atMs - sinceMs))
    busy.set(tenantId, (busy.get(tenantId) ?? 0) + heldMs)
  }
  const total = [...busy.values()].reduce((sum, ms) => sum + ms, 0)
  return (tenant) => (total === 0 ? 0 : (busy.get(tenant) ?? 0) / total)
}

/** Sorts by what a caller asked for, equal rows by tenant. */
export function sorted(rows: readonly TenantRow[], by: (typeof QUEUE_TENANT_SORTS)[number]): TenantRow[] {
  const most = {
    next: ({ place }: TenantRow) => -(place ?? Infinity),
    waiting: ({ waiting }: TenantRow) => waiting,
    share: ({ share_1m: share }: TenantRow) => share ?? 0,
    lag: ({ virtual_lag: lag }: TenantRow) => lag ?? -Infinity,
  }[by]
  // Compares instead of subtracting, because the difference of two infinities is NaN.
  const compare = (a: TenantRow, b: TenantRow): number =>
    most(a) === most(b) ? (a.tenant_id < b.tenant_id ? -1 : 1) : most(b) > most(a) ? 1 : -1
  return rows.toSorted(compare)
}
