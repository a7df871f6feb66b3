/** An execution that admission refused waits for room in the cap, or ends as `cap_exceeded`. */
import type { Refused } from '@cofferdam/admission'
import { largestCharge, MICRO, outcomeWithoutRun, type CapDimension, type CapsUse } from '@cofferdam/contract'
import type { Taken } from '@cofferdam/queue'
import type { EndFacts, NoRun } from './decision.ts'
import { requeueUnchecked, withJitter } from './requeue.ts'
import type { WorkerDeps } from './worker-deps.ts'

/** Longest wait for a free lease. Usually a lease is released earlier. */
const CONCURRENCY_RETRY_MS = 1000
/**
 * Running attempts return their reservation when they end. The wait is short, so that it suits programs of
 * 100 ms.
 */
const RESERVED_RETRY_MS = 100
/**
 * When a cap is raised, its tenant is unparked, but executions that wait alone are not found. So they ask
 * again after this time. With 10,000 of them (the default of max_queued), that is 33 claims per second.
 */
const ALONE_RETRY_MS = 5 * 60_000
/** Caps that can refuse one execution of a tenant and admit another, of another agent or a smaller one. */
const REFUSES_ONE: ReadonlySet<CapDimension> = new Set([
  'agent_hourly',
  'tenant_daily_cpu',
  'tenant_daily_cost',
])

export async function afterRefusal(
  taken: Taken,
  refused: Refused,
  policy: Pick<EndFacts, 'retentionDays' | 'environment' | 'templateId'>,
  deps: Pick<WorkerDeps, 'mayRetryCheck' | 'prices'>,
): Promise<NoRun> {
  const { dimension } = refused
  const unchecked = dimension === 'unknown' ? await requeueUnchecked(taken, 'caps', deps) : null
  if (unchecked !== null) return { next: 'requeue', back: unchecked }
  if (dimension === 'tenant_concurrency') {
    // The caller sees no refusal: the scheduler holds the tenant back until a lease is free.
    const untilMs = Math.min(refused.resetsAtMs, taken.nowMs() + CONCURRENCY_RETRY_MS)
    return waitFor(untilMs, 'Waits for a free lease.')
  }
  if (refused.held === true)
    return waitFor(
      taken.nowMs() + RESERVED_RETRY_MS,
      `Waits for what running executions may still use of the ${dimension} cap.`,
    )
  if (taken.request.on_cap === 'defer' && !refused.killSwitch && !neverFits(taken, refused, deps)) {
    const why = `Waits for the ${dimension} cap.`
    if (!REFUSES_ONE.has(dimension)) return waitFor(withJitter(refused.resetsAtMs), why)
    const untilMs = withJitter(Math.min(refused.resetsAtMs, taken.nowMs() + ALONE_RETRY_MS))
    return { next: 'requeue', back: { waits: 'alone', untilMs, why } }
  }
  return endByCap(refused, dimension, policy)
}

/** No execution of the tenant gets a slot until then. */
const waitFor = (untilMs: number, why: string): NoRun => ({
  next: 'requeue',
  back: { waits: 'tenant', untilMs, why },
})

/** Whether the execution may use more than the whole cap, so that waiting for the next day is useless. */
function neverFits(
  taken: Taken,
  { dimension, caps }: Refused,
  { prices }: Pick<WorkerDeps, 'prices'>,
): boolean {
  const most = largestCharge(taken.request.limits, prices)
  if (dimension === 'tenant_daily_cpu') return most.cpuMs / 1000 > (caps?.tenant_daily_cpu?.limit ?? 0)
  return dimension === 'tenant_daily_cost' && most.cost > (caps?.tenant_daily_cost?.limit ?? 0)
}

function endByCap(
  refused: Refused,
  dimension: CapDimension,
  policy: Pick<EndFacts, 'retentionDays' | 'environment' | 'templateId'>,
): NoRun {
  const { caps, killSwitch } = refused
  const resetsAt = new Date(refused.resetsAtMs).toISOString()
  const message = killSwitch
    ? `Executions are switched off (${dimension} cap is 0).`
    : capMessage(dimension, caps, resetsAt)
  return {
    next: 'end',
    outcome: outcomeWithoutRun('cap_exceeded', killSwitch ? 'kill_switch' : dimension, message),
    facts: { ...policy, chargedAtMs: null, caps, refusal: { dimension, resetsAt, killSwitch } },
    settles: null,
  }
}

/**
 * The public message of a refusal by a cap. For CPU and cost it states the remainder, in the units in which
 * operators set the cap, because a smaller execution may still fit.
 */
export function capMessage(dimension: CapDimension, caps: CapsUse | null, resetsAt: string): string {
  const left = (use: { used: number; limit: number } | undefined) =>
    use === undefined ? 0 : Math.max(0, Math.round((use.limit - use.used) * 1000) / 1000)
  if (dimension === 'tenant_daily_cpu')
    return (
      `The execution may use more CPU time than the ${left(caps?.tenant_daily_cpu)} s that are left ` +
      `of the tenant_daily_cpu cap, which resets at ${resetsAt}; ` +
      'a shorter hard_timeout_ms, fewer cpus or cpu_time_ms make it smaller.'
    )
  if (dimension === 'tenant_daily_cost')
    return (
      `The execution may cost more than the ${left(caps?.tenant_daily_cost) / MICRO} units that are left ` +
      `of the tenant_daily_cost cap, which resets at ${resetsAt}; smaller limits make it cheaper.`
    )
  return `The ${dimension} cap is reached; it resets at ${resetsAt}.`
}
