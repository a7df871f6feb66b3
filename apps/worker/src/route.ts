/**
 * Whether this worker can run an execution. The scheduler gives a worker what its heartbeat says that it can
 * serve, but knows the request only: a tenant's policy may ask for stronger isolation, and what no worker of
 * the fleet has is given to any, to be refused.
 */
import {
  hasRunSession,
  meetsNeed,
  needOf,
  offerOf,
  withoutSession,
  type ExecutionRequest,
  type Offer,
  type TenantPolicy,
} from '@cofferdam/contract'
import type { BackendReport, MemoryBudget } from '@cofferdam/executor'
import type { Taken } from '@cofferdam/queue'
import type { WorkerDeps } from './worker-deps.ts'

const MiB = 1_048_576

/** One offer for each backend whose last probe was good; the same array until the reports change. */
export function createOffers(
  memory: Pick<MemoryBudget, 'totalBytes'>,
): (reports: readonly BackendReport[]) => readonly Offer[] {
  let last: { reports: readonly BackendReport[]; offers: readonly Offer[] } | null = null
  return (reports) => {
    if (last?.reports !== reports) {
      const usable = reports.filter(({ probe }) => probe.ok)
      last = { reports, offers: usable.map((report) => offerOf(report, memory.totalBytes / MiB)) }
    }
    return last.offers
  }
}

/**
 * Puts an execution back for a worker that can run it; false when this worker can, or nobody else can: then
 * it is carried on here, and refused with the reason. Not charged yet.
 */
export async function leftForAnother(taken: Taken, tenant: TenantPolicy, deps: WorkerDeps): Promise<boolean> {
  for (const request of waysToRun(taken.request)) {
    const need = needOf(request, tenant.min_isolation)
    if (deps.offers().some((offer) => meetsNeed(offer, need))) return false
    if (await taken.route(need)) return true
  }
  return false
}

/** The session of its run is what it can do without; what asked for a session has no other way. */
const waysToRun = (request: ExecutionRequest): ExecutionRequest[] =>
  hasRunSession(request) ? [request, withoutSession(request)] : [request]
