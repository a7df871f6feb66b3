/** What a SandboxClaim says (Agent Sandbox, extensions.agents.x-k8s.io): whether it has a pod, may still get one, or never will. */
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'

/** Reasons of `Ready: False` that end a claim, whatever it had before (v1.0.x). */
const ENDED = new Set(['ClaimExpired', 'SandboxExpired', 'PodFailed', 'PodSucceeded'])
/** Those that no waiting heals: the controller does not try again, or the official clients do not. */
const TERMINAL = new Set([
  ...ENDED,
  'InvalidMetadata',
  'EnvVarsInjectionRejected',
  'VolumeClaimTemplatesError',
  'WarmPoolNotFound',
  'TemplateNotFound',
  'InvalidConfiguration',
])

/** The part of a SandboxClaim that is read here. Null is absent, as all of Kubernetes has it. */
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

/** A pod that is ours. */
export interface ClaimedPod {
  claim: string
  /** The Sandbox's and the pod's name: what its pod.py answers to. */
  name: string
  ip: string
}

/** The pod of a claim that is ready; null while it is not. Throws `sandbox_open_failed` for what never will be. */
export function podOf(claim: Claim): ClaimedPod | null {
  const end = endOf(claim, TERMINAL)
  if (end !== null) throw new CofferdamError('sandbox_open_failed', `Kubernetes: the claim ended with ${end}`)
  return readyPodOf(claim)
}

/** The pod of a claim, or null for one that has none now, is going, or never will have one. */
export const heldPodOf = (claim: Claim): ClaimedPod | null =>
  endOf(claim, TERMINAL) === null ? readyPodOf(claim) : null

/** True for the same place: a pod that is made anew bears its Sandbox's name again. */
export const isSamePod = (one: ClaimedPod, other: ClaimedPod | null): boolean =>
  one.name === other?.name && one.ip === other.ip

/**
 * Why a pod is its claim's no more; null while it is, as far as one knows: a claim may say for a moment that it is not ready, or that its
 * controller is at a loss, without anything being wrong with the pod.
 */
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

/** What a claim ended with, by these reasons; null while it goes on. */
function endOf(claim: Claim, reasons: ReadonlySet<string>): string | null {
  if ((claim.metadata.deletionTimestamp ?? null) !== null) return 'its deletion'
  const ready = readinessOf(claim)
  if (ready?.status !== 'False' || !reasons.has(ready.reason ?? '')) return null
  return `${ready.reason}: ${(ready.message ?? '').slice(0, 300)}`
}

const readinessOf = ({ status }: Claim) => status?.conditions?.find(({ type }) => type === 'Ready')
