/** Adds to a refusal what the other workers lack, because this one knows only its own backends. */
import { BOUNDS, type Outcome, type TenantPolicy } from '@cofferdam/contract'
import { meetsNeed, needOf, type Taken } from '@cofferdam/queue'
import type { WorkerDeps } from './worker-deps.ts'

/** Refusals that say that a backend is missing or cannot do what the request asks for. */
const ABOUT_CAPABILITY: ReadonlySet<string | null> = new Set([
  'backend_unknown',
  'capability_missing',
  'isolation_unavailable',
])

/** Returns the outcome unchanged if it is no such refusal, or if the other workers have nothing to add. */
export async function withReasonsOfOthers(
  { request }: Pick<Taken, 'request'>,
  outcome: Outcome,
  tenant: TenantPolicy,
  deps: Pick<WorkerDeps, 'offers' | 'lacksOfOthers' | 'logger'>,
): Promise<Outcome> {
  if (outcome.began || !ABOUT_CAPABILITY.has(outcome.reason)) return outcome
  const need = needOf(request, tenant.min_isolation)
  if (deps.offers().some((offer) => meetsNeed(offer, need))) return outcome
  const lacks = await deps.lacksOfOthers(need).catch((error: unknown) => {
    deps.logger.warn({ err: error }, 'the offers of other workers were not read')
    return []
  })
  if (lacks.length === 0) return outcome
  const reason = `${outcome.failureReason ?? ''} No other worker of the fleet can either: ${lacks.join('; ')}.`
  return { ...outcome, failureReason: reason.trim().slice(0, BOUNDS.failureReasonLength) }
}
