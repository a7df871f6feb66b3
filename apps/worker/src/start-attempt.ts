/** Starts an admitted attempt in the executor and connects it with queue, checkpoints and workspace. */
import type { Admitted } from '@cofferdam/admission'
import { StopReason, type Outcome, type TenantPolicy } from '@cofferdam/contract'
import type { Attempt } from '@cofferdam/executor'
import type { Taken } from '@cofferdam/queue'
import type { AttemptResult, Back } from './decision.ts'
import type { WorkerDeps } from './worker-deps.ts'

/** Dispose it when the result is stored. That destroys the sandbox and waits until it is gone. */
export interface StartedAttempt extends AsyncDisposable {
  /** Rejects with `fenced` when another worker owns the attempt. */
  readonly result: Promise<AttemptResult>
}

/** Starts the program in a sandbox. Throws `invalid_request` for malformed workspace rules. */
export async function startAttempt(
  taken: Taken,
  tenant: TenantPolicy,
  { chargedAtMs }: Admitted,
  deps: WorkerDeps,
): Promise<StartedAttempt> {
  const stored = Promise.withResolvers<void>()
  const { outcome, gone } = deps.executor.start({
    ...commonParts(taken, tenant, deps),
    request: deps.within?.(taken.request) ?? taken.request,
    answered: stored.promise,
    checkpoint: await deps.checkpoints.open(taken, tenant),
    workspace: deps.workspaces.open(taken),
    onBegin: (ref, place) => taken.begin(ref, { ...place, chargedAtMs }),
    onHandedOver: () => void taken.handOver(),
    onProgress: (progress) => taken.emit({ type: 'progress', at_ms: Date.now(), ...progress }),
    onNotice: (message) => taken.emit({ type: 'notice', at_ms: Date.now(), message }),
    onOutput(stream, text) {
      taken.emit({ type: 'output', at_ms: Date.now(), stream, text })
      return taken.room()
    },
  })
  return {
    result: outcome.then((ended) => requeuedWhenFull(taken, ended, deps), requeuedWhenDrained),
    async [Symbol.asyncDispose]() {
      stored.resolve()
      await gone
    },
  }
}

/** What every attempt gives the executor, even one that only operates on a session. */
export const commonParts = (taken: Taken, tenant: TenantPolicy, deps: WorkerDeps) =>
  ({
    executionId: taken.executionId,
    attempt: taken.attempt,
    tenant,
    owner: deps.workerId,
    signal: taken.signal,
    traceparent: taken.traceparent,
    // The switch is asked when the backend is used, not when the execution is claimed.
    refusesBackend: async (backend) => (await deps.switches.get(backend)?.refuses(taken.request)) ?? null,
  }) satisfies Partial<Attempt>

/** Requeues the attempt if every suitable backend is full, because one of them will have capacity again. */
function requeuedWhenFull(taken: Taken, outcome: Outcome, deps: WorkerDeps): AttemptResult {
  if (outcome.ending !== 'provisioning' || outcome.reason !== 'backend_full' || outcome.began)
    return { next: 'end', outcome }
  const why = `Waits for room. ${outcome.failureReason?.slice(0, 300) ?? ''}`
  return { next: 'requeue', back: { waits: 'alone', untilMs: deps.returnAtMs(taken.nowMs()), why } }
}

/** The executor rejects with StopReason `drain` when a drain begins before user code has run. */
export function requeuedWhenDrained(error: unknown): Back {
  if (!(error instanceof StopReason) || error.stopCause !== 'drain') throw error
  return { next: 'requeue', back: { waits: 'not' } }
}
