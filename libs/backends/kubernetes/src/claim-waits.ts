/** Waits for the pod of a claim, and then for its loss. */
import { CofferdamError } from '@cofferdam/contract'
import { isSamePod, lossOf, podOf, type Claim, type ClaimedPod } from './claim-state.ts'
import type { Followed, Heard } from './claim-watch.ts'

/** Reads the claim; null if it does not exist. Throws if the API server does not answer. */
export type ReadClaim = (name: string) => Promise<Claim | null>

/** Waits until a new claim has a pod other than `not`. Throws `sandbox_open_failed` or `signal`'s reason. */
export async function untilReady(
  first: Claim,
  followed: Followed,
  read: ReadClaim,
  signal: AbortSignal,
  not: ClaimedPod | null = null,
): Promise<ClaimedPod> {
  signal.throwIfAborted()
  const { promise, resolve, reject } = Promise.withResolvers<ClaimedPod>()
  const onAbort = (): void => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  const judge = (claim: Claim | null): void => {
    try {
      if (claim === null) throw deleted('sandbox_open_failed')
      const pod = podOf(claim)
      if (pod !== null && !isSamePod(pod, not)) resolve(pod)
    } catch (error) {
      reject(error)
    }
  }
  judge(first)
  followed.listen(certain(first.metadata.name, read, judge))
  try {
    return await promise
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

/**
 * Aborts with `sandbox_lost` when the claim is gone, has ended or has another pod. The connection does not
 * always show this: a node that loses its network closes no connection, and another pod can get the address.
 */
export function lossSignal(pod: ClaimedPod, followed: Followed, read: ReadClaim): AbortSignal {
  const lost = new AbortController()
  const judge = (claim: Claim | null): void => {
    const why = claim === null ? null : lossOf(claim, pod)
    if (claim === null) lost.abort(deleted('sandbox_lost'))
    else if (why !== null) lost.abort(new CofferdamError('sandbox_lost', `Kubernetes: ${why}.`))
  }
  followed.listen(certain(pod.claim, read, judge))
  return lost.signal
}

/**
 * Reads a claim that the watch reports as absent. Ignores a failed read: the next list repeats the report.
 */
function certain(name: string, read: ReadClaim, judge: (claim: Claim | null) => void) {
  return (heard: Heard): void => {
    if (heard === 'absent') read(name).then(judge, () => undefined)
    else judge(heard)
  }
}

const deleted = (code: 'sandbox_open_failed' | 'sandbox_lost'): CofferdamError =>
  new CofferdamError(code, 'Kubernetes: the claim was deleted.')
