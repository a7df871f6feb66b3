/**
 * Whether this worker can run an execution. The scheduler gives a worker what its heartbeat says that it can
 * serve, but knows the request only: a tenant's policy may ask for stronger isolation, and what no worker of
 * the fleet has is given to any, to be refused.
 */
import { hasRunSession, withoutSession, type ExecutionRequest, type TenantPolicy } from '@cofferdam/contract'
import type { BackendReport, Executor } from '@cofferdam/executor'
import { meetsNeed, needOf, offerOf, type Offer, type Taken } from '@cofferdam/queue'
import type { WorkerDeps } from './worker-deps.ts'

const MiB = 1_048_576

/**
 * One offer for each backend whose last probe was good and that does not rest; the same array until that
 * changes. Without its broken backend a worker is no longer given what others can run.
 */
export function createOffers({
  memory,
  rests,
}: Pick<Executor, 'memory' | 'rests'>): (reports: readonly BackendReport[]) => readonly Offer[] {
  let usable: readonly BackendReport[] = []
  let offers: readonly Offer[] = []
  return (reports) => {
    const now = reports.filter(({ name, probe }) => probe.ok && !rests(name))
    if (now.length !== usable.length || now.some((report, at) => report !== usable[at])) {
      usable = now
      offers = now.map((report) => offerOf(report, memory.totalBytes / MiB))
    }
    return offers
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
