/** Tells whether a SandboxClaim (extensions.agents.x-k8s.io) has a pod, may still get one, or never will. */
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'

/** Reasons of `Ready: False` that end a claim, even if it had a pod before (Agent Sandbox v1.0). */
const ENDED = new Set(['ClaimExpired', 'SandboxExpired', 'PodFailed', 'PodSucceeded'])
/** Reasons that waiting does not fix: the controller does not retry, or the official clients give up. */
const TERMINAL = new Set([
  ...ENDED,
  'InvalidMetadata',
  'EnvVarsInjectionRejected',
  'VolumeClaimTemplatesError',
  'WarmPoolNotFound',
  'TemplateNotFound',
  'InvalidConfiguration',
])

/** The fields that this backend reads. As everywhere in Kubernetes, null means absent. */
export const claimSchema = z.object({
  metadata: z.object({
    name: z.string(),
    labels: z.record(z.string(), z.string()).nullish(),
    deletionTimestamp: z.string().nullish(),
  }),
  status: z
    .object({
      conditions: z
        .array(
          z.object({
            type: z.string(),
            status: z.string(),
            reason: z.string().nullish(),
            message: z.string().nullish(),
          }),
        )
        .nullish(),
      sandbox: z.object({ name: z.string().nullish(), podIPs: z.array(z.string()).nullish() }).nullish(),
    })
    .nullish(),
})
export type Claim = z.output<typeof claimSchema>

export interface ClaimedPod {
  claim: string
  /** The name of both the Sandbox and the pod. `pod.py` checks it. */
  name: string
  ip: string
}

/** The pod of a ready claim, or null. Throws `sandbox_open_failed` if the claim never gets ready. */
export function podOf(claim: Claim): ClaimedPod | null {
  const end = endOf(claim, TERMINAL)
  if (end !== null) throw new CofferdamError('sandbox_open_failed', `Kubernetes: the claim ended with ${end}`)
  return readyPodOf(claim)
}

/** Returns the pod of a claim, or null if the claim has none, is being deleted, or never will have one. */
export const heldPodOf = (claim: Claim): ClaimedPod | null =>
  endOf(claim, TERMINAL) === null ? readyPodOf(claim) : null

/** Compares addresses too, because a replacement pod has the same name. */
export const isSamePod = (one: ClaimedPod, other: ClaimedPod | null): boolean =>
  one.name === other?.name && one.ip === other.ip

/** Why the claim lost this pod, or null. A claim can be not ready for a moment although its pod is fine. */
export function lossOf(claim: Claim, pod: ClaimedPod): string | null {
  const end = endOf(claim, ENDED)
  if (end !== null) return `the claim ended with ${end}`
  const name = claim.status?.sandbox?.name ?? null
  const podIPs = claim.status?.sandbox?.podIPs ?? []
  const isAnother =
    readinessOf(claim)?.status === 'True' &&
    name !== null &&
    (name !== pod.name || (podIPs.length > 0 && !podIPs.includes(pod.ip)))
  return isAnother ? `the claim has another pod now (${name})` : null
}

function readyPodOf(claim: Claim): ClaimedPod | null {
  const name = claim.status?.sandbox?.name ?? null
  const ip = claim.status?.sandbox?.podIPs?.[0] ?? null
  if (readinessOf(claim)?.status !== 'True' || name === null || ip === null) return null
  return { claim: claim.metadata.name, name, ip }
}

/** Returns which of these reasons ended the claim, or null if none did. */
function endOf(claim: Claim, reasons: ReadonlySet<string>): string | null {
  if ((claim.metadata.deletionTimestamp ?? null) !== null) return 'its deletion'
  const ready = readinessOf(claim)
  if (ready?.status !== 'False' || !reasons.has(ready.reason ?? '')) return null
  return `${ready.reason}: ${(ready.message ?? '').slice(0, 300)}`
}

const readinessOf = ({ status }: Claim) => status?.conditions?.find(({ type }) => type === 'Ready')
