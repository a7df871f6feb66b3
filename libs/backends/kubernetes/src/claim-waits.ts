/** What a claim is followed for: the pod that it will have, then the moment when that pod is its own no more. */
import { CofferdamError } from '@cofferdam/contract'
import { isSamePod, lossOf, podOf, type Claim, type ClaimedPod } from './claim-state.ts'
import type { Followed, Heard } from './claim-watch.ts'

/** Asks the API server itself: null for a claim that is gone. Throws when it does not say. */
export type ReadClaim = (name: string) => Promise<Claim | null>

/**
 * The pod of a claim that was just made or read, once it is ready and another than `not`. Throws `sandbox_open_failed` when it never will
 * be, or the reason of `signal`.
 */
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
 * Aborts with `sandbox_lost` when the claim is gone, has ended or has another pod: a node that is cut off closes no connection, and an
 * address may come to another pod.
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

/** Looks at what was not heard for sure. A look that fails says nothing: the next list brings it again. */
function certain(name: string, read: ReadClaim, judge: (claim: Claim | null) => void) {
  return (heard: Heard): void => {
    if (heard === 'absent') read(name).then(judge, () => undefined)
    else judge(heard)
  }
}

const deleted = (code: 'sandbox_open_failed' | 'sandbox_lost'): CofferdamError =>
  new CofferdamError(code, 'Kubernetes: the claim was deleted.')
