/** What a pod is created from: a pool's template, and what a claim adds to it. */
import type { KubeObject, ObjectStore } from './object-store.ts'
import { adoptedMetadata, claimedTemplate, coldMetadata, spareMetadata } from './pod-metadata.ts'
import type { Blueprint, Running } from './sandbox-pods.ts'

/** The pod template of a pool without a template object. */
const PLAIN: Blueprint['podTemplate'] = {
  spec: { containers: [{ name: 'sandbox' }], restartPolicy: 'Never' },
}

/** The pool that a claim names; undefined when there is none. */
export function poolOf(store: ObjectStore, { spec, metadata }: KubeObject): KubeObject | undefined {
  const name = String((spec['warmPoolRef'] as { name?: unknown } | undefined)?.name)
  return store.get('sandboxwarmpools', metadata.namespace, name)
}

/** The pod template of a pool, and its name. */
function templateOf(
  store: ObjectStore,
  pool: KubeObject | undefined,
): { name: string; podTemplate: Blueprint['podTemplate'] } {
  const name = (pool?.spec['sandboxTemplateRef'] as { name: string } | undefined)?.name ?? ''
  const template = store.get('sandboxtemplates', pool?.metadata.namespace ?? '', name)
  return {
    name,
    podTemplate: (template?.spec['podTemplate'] as Blueprint['podTemplate'] | undefined) ?? PLAIN,
  }
}

/** A pod of a pool that no claim has adopted yet. */
export function spareBlueprint(store: ObjectStore, pool: KubeObject): Blueprint {
  const { name, podTemplate } = templateOf(store, pool)
  return { metadata: spareMetadata(pool.metadata.name, name, podTemplate), podTemplate }
}

/** A pod that is started for a claim. Throws if the claim wants other values than its template. */
export function coldBlueprint(store: ObjectStore, claim: KubeObject): Blueprint {
  const { name, podTemplate } = templateOf(store, poolOf(store, claim))
  const metadata = claimedTemplate(podTemplate.metadata ?? {}, name, claim)
  return { metadata: coldMetadata(claim, name), podTemplate: { ...podTemplate, metadata } }
}

/** A spare pod once a claim has adopted it. Throws as `coldBlueprint` does. */
export function adoptedBlueprint(
  store: ObjectStore,
  { namespace, sandbox }: Running,
  claim: KubeObject,
): Blueprint {
  const { podTemplate } = coldBlueprint(store, claim)
  const spare = store.get('sandboxes', namespace, sandbox)
  return {
    metadata: spare === undefined ? { labels: {}, annotations: {} } : adoptedMetadata(spare, claim),
    podTemplate,
  }
}

/** True if a claim asks for variables or volumes, which a running spare pod cannot get. */
export const forcesColdStart = ({ spec }: KubeObject): boolean =>
  [spec['env'], spec['volumeClaimTemplates']].some((given) => Array.isArray(given) && given.length > 0)
