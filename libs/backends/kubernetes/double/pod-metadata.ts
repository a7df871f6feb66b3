/**
 * Labels and annotations that Agent Sandbox's controllers write to Sandboxes and pods, and those that a claim
 * may add (kubernetes-sigs/agent-sandbox @2fd412d5: api/v1beta1/sandbox_types.go,
 * controllers/sandbox_controller.go, extensions/controllers/sandboxclaim_controller.go and
 * sandboxwarmpool_controller.go).
 */
import { faultOfKey, faultOfValue } from './labels.ts'
import type { KubeObject } from './object-store.ts'

type Texts = Record<string, string>

/** The `metadata` of a pod template. */
export interface PodMetadata {
  labels?: Texts
  annotations?: Texts
}

const SYSTEM = ['agents.x-k8s.io/', 'extensions.agents.x-k8s.io/']
const NAME_HASH = 'agents.x-k8s.io/sandbox-name-hash'
const WARM_POOL = 'agents.x-k8s.io/warm-pool-sandbox'
const TEMPLATE_REF_HASH = 'agents.x-k8s.io/sandbox-template-ref-hash'
const TEMPLATE_HASHES = ['agents.x-k8s.io/sandbox-pod-template-hash', 'agents.x-k8s.io/sandbox-template-hash']
const LAUNCH_TYPE = 'agents.x-k8s.io/launch-type'
const CREATED_BY = 'agents.x-k8s.io/created-by'
const CLAIM_UID = 'agents.x-k8s.io/claim-uid'
const TEMPLATE_REF = 'agents.x-k8s.io/sandbox-template-ref'
const PROPAGATED_LABELS = 'agents.x-k8s.io/propagated-labels'
const PROPAGATED_ANNOTATIONS = 'agents.x-k8s.io/propagated-annotations'
/** On a Sandbox: the name of its pod. */
export const POD_NAME = 'agents.x-k8s.io/pod-name'
/** On a claim: the name of the Sandbox that it adopted. */
export const ASSIGNED_SANDBOX = 'agents.x-k8s.io/sandbox-name'

/** Valid values of `created-by`; any other becomes `unknown` on a pod. */
const CREATORS = ['go-client', 'python-client', 'controller']
/** Domains of labels that a claim may add (the controller's default), and of forbidden annotations. */
const ALLOWED_DOMAINS = ['sandbox.users.io']
const RESTRICTED_DOMAINS = ['kubernetes.io', 'k8s.io', 'agents.x-k8s.io']
const EXEMPT = ['cluster-autoscaler.kubernetes.io/safe-to-evict']

/** FNV-1a in 32 bits, as eight hexadecimal digits: the form of names in labels. */
export function nameHash(name: string): string {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(name)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return hash.toString(16).padStart(8, '0')
}

/** The selector of a Sandbox's pod, as in its status. */
export const podSelector = (sandbox: string): string => `${NAME_HASH}=${nameHash(sandbox)}`

/** Metadata of a spare, which a pool creates. */
export function spareMetadata(pool: string, template: string, podTemplate: object): Required<PodMetadata> {
  const hash = nameHash(JSON.stringify(podTemplate))
  return {
    labels: {
      [WARM_POOL]: nameHash(pool),
      [TEMPLATE_REF_HASH]: nameHash(template),
      [LAUNCH_TYPE]: 'warm',
      ...Object.fromEntries(TEMPLATE_HASHES.map((name) => [name, hash])),
      [CREATED_BY]: 'controller',
    },
    annotations: { [TEMPLATE_REF]: template },
  }
}

/** Metadata of a Sandbox that a claim starts cold. */
export const coldMetadata = (claim: KubeObject, template: string): Required<PodMetadata> => ({
  labels: { ...identity(claim), [LAUNCH_TYPE]: 'cold', [TEMPLATE_REF_HASH]: nameHash(template) },
  annotations: { [TEMPLATE_REF]: template },
})

/** Metadata of a spare after a claim has adopted it. */
export function adoptedMetadata(sandbox: KubeObject, claim: KubeObject): Required<PodMetadata> {
  const { labels = {}, annotations = {} } = sandbox.metadata
  const dropped = [WARM_POOL, CREATED_BY, ...TEMPLATE_HASHES]
  const kept = Object.entries(labels).filter(([key]) => !dropped.includes(key))
  return { labels: { ...Object.fromEntries(kept), [LAUNCH_TYPE]: 'warm', ...identity(claim) }, annotations }
}

/** Metadata of a claim's pod template: template plus claim. Throws for different values. */
export function claimedTemplate(of: PodMetadata, template: string, claim: KubeObject): PodMetadata {
  const { labels = {}, annotations = {} } = additional(claim)
  const own = { ...of.labels, ...identity(claim), [TEMPLATE_REF_HASH]: nameHash(template) }
  refuseOverrides('label', own, labels)
  refuseOverrides('annotation', of.annotations ?? {}, annotations)
  return { labels: { ...own, ...labels }, annotations: { ...of.annotations, ...annotations } }
}

/** What a claim may not ask for in its `additionalPodMetadata`; null if all is allowed. */
export function faultOfAdditional(claim: KubeObject): string | null {
  const { labels = {}, annotations = {} } = additional(claim)
  for (const [key, value] of Object.entries(labels)) {
    const why = faultOfAdditionalLabel(key, value)
    if (why !== null)
      return `invalid additionalPodMetadata: failed to validate label ${JSON.stringify(key)}: ${why}`
  }
  for (const key of Object.keys(annotations)) {
    const why = faultOfAdditionalAnnotation(key)
    if (why !== null)
      return `invalid additionalPodMetadata: failed to validate annotation ${JSON.stringify(key)}: ${why}`
  }
  return null
}

/** Metadata of a Sandbox's pod. System keys that the template sets are dropped. */
export function podMetadata({ metadata, spec }: KubeObject): Required<PodMetadata> {
  const given = ((spec['podTemplate'] as { metadata?: PodMetadata } | undefined)?.metadata ??
    {}) as PodMetadata
  const labels = ownOf(given.labels)
  const annotations = ownOf(given.annotations)
  const sandboxLabels = metadata.labels ?? {}
  const isSpare = metadata.ownerReferences?.[0]?.kind === 'SandboxWarmPool'
  const creator = sandboxLabels[CREATED_BY]
  return {
    labels: {
      ...labels,
      [NAME_HASH]: nameHash(metadata.name),
      ...(isSpare ? picked(sandboxLabels, WARM_POOL) : {}),
      ...picked(sandboxLabels, TEMPLATE_REF_HASH),
      ...(creator === undefined ? {} : { [CREATED_BY]: CREATORS.includes(creator) ? creator : 'unknown' }),
    },
    annotations: {
      ...annotations,
      ...listed(PROPAGATED_LABELS, labels),
      ...listed(PROPAGATED_ANNOTATIONS, annotations),
    },
  }
}

const additional = ({ spec }: KubeObject): PodMetadata => (spec['additionalPodMetadata'] ?? {}) as PodMetadata

/** Metadata that names a claim on its Sandbox. */
const identity = ({ metadata }: KubeObject): Texts => ({
  [CLAIM_UID]: metadata.uid,
  ...picked(metadata.labels ?? {}, CREATED_BY),
})

const picked = (from: Texts, key: string): Texts => (from[key] === undefined ? {} : { [key]: from[key] })

const ownOf = (given: Texts = {}): Texts =>
  Object.fromEntries(
    Object.entries(given).filter(([key]) => !SYSTEM.some((prefix) => key.startsWith(prefix))),
  )

const listed = (key: string, given: Texts): Texts =>
  Object.keys(given).length === 0 ? {} : { [key]: Object.keys(given).toSorted().join(',') }

function refuseOverrides(what: string, own: Texts, asked: Texts): void {
  for (const [key, value] of Object.entries(asked))
    if (own[key] !== undefined && own[key] !== value)
      throw new Error(
        `metadata override conflict: ${what} "${key}" is "${own[key]}" in the template, "${value}" in the claim`,
      )
}

function faultOfAdditionalLabel(key: string, value: string): string | null {
  const wrongKey = faultOfKey(key)
  if (wrongKey !== null) return `invalid label key: ${wrongKey}`
  if (!key.includes('/')) return 'it must have a domain prefix (e.g. "sandbox.users.io/my-label")'
  const domain = domainOf(key)
  if (!ALLOWED_DOMAINS.some((allowed) => isWithin(domain, allowed)))
    return `label domain ${JSON.stringify(domain)} is not in the allowlist`
  const wrongValue = faultOfValue(value)
  return wrongValue === null ? null : `invalid label value: ${wrongValue}`
}

function faultOfAdditionalAnnotation(key: string): string | null {
  const wrongKey = faultOfKey(key)
  if (wrongKey !== null) return `invalid annotation key: ${wrongKey}`
  const domain = key.includes('/') ? domainOf(key) : ''
  const isRestricted = RESTRICTED_DOMAINS.some((restricted) => isWithin(domain, restricted))
  return isRestricted && !EXEMPT.includes(key)
    ? `restricted system domain: ${JSON.stringify(key)} is not allowed`
    : null
}

const domainOf = (key: string): string => (key.split('/')[0] ?? '').toLowerCase()

const isWithin = (domain: string, parent: string): boolean =>
  domain === parent || domain.endsWith(`.${parent}`)
