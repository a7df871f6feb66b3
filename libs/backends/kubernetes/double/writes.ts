/** Writes with a real API server's checks: create, replace, the patches, scale and delete. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { checkedSpec, checkedStatus, checkMetadata, invalid, shown } from './admission.ts'
import { Refusal } from './answers.ts'
import { apiVersionOf, groupOf, KINDS } from './discovery.ts'
import { FOREGROUND } from './garbage-collector.ts'
import type { KubeObject, Metadata, ObjectStore } from './object-store.ts'
import { BadPatch, jsonPatch, mergePatch } from './patches.ts'
import { GRACE_SECONDS } from './pod-objects.ts'

/** Kind, namespace, subresource and query of a request. */
export interface Target {
  plural: string
  namespace: string
  subresource: string | undefined
  query: URLSearchParams
}

/** Fields that only the server sets. */
const SYSTEM = [
  'name',
  'namespace',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
] as const

/** Creates an object. Throws Refusal. */
export function create(
  store: ObjectStore,
  response: ServerResponse,
  { plural, namespace, query }: Target,
  body: Record<string, unknown>,
): KubeObject {
  const given = body as unknown as KubeObject
  const kind = KINDS[plural] ?? ''
  const apiVersion = apiVersionOf(plural)
  if (given.kind !== kind || (given.apiVersion ?? apiVersion) !== apiVersion)
    throw new Refusal(
      400,
      'BadRequest',
      `the object provided is unrecognized: expected ${apiVersion} ${kind}`,
    )
  const generated = given.metadata as { generateName?: string; name?: string } | undefined
  const name =
    generated?.name ?? (generated?.generateName === undefined ? '' : generated.generateName + suffix())
  if (name === '')
    throw invalid(plural, name, [
      {
        reason: 'FieldValueRequired',
        field: 'metadata.name',
        message: 'Required value: name or generateName is required',
      },
    ])
  const spec = checkedSpec(plural, name, given.spec, query, response)
  const metadata = { ...given.metadata, name, namespace }
  checkMetadata(plural, metadata)
  for (const key of ['resourceVersion', 'deletionTimestamp'] as const)
    delete (metadata as Partial<Metadata>)[key]
  const created = store.create({ apiVersion, kind, spec, metadata })
  if (created === undefined)
    throw new Refusal(409, 'AlreadyExists', `${shown(plural)} "${name}" already exists`)
  return created
}

/** Replaces an object, its status or its scale. Throws Refusal. */
export function replace(
  store: ObjectStore,
  response: ServerResponse,
  target: Target,
  object: KubeObject,
  body: Record<string, unknown>,
): object {
  const version = (body['metadata'] as Partial<Metadata> | undefined)?.resourceVersion
  if (version === undefined && target.subresource === undefined)
    throw invalid(target.plural, object.metadata.name, [
      {
        reason: 'FieldValueInvalid',
        field: 'metadata.resourceVersion',
        message: 'Invalid value: 0x0: must be specified for an update',
      },
    ])
  return write(store, response, target, object, body)
}

/** Applies a patch by its content type. Throws Refusal. */
export function patch(
  store: ObjectStore,
  request: IncomingMessage,
  response: ServerResponse,
  target: Target,
  object: KubeObject,
  body: unknown,
): object {
  const type = request.headers['content-type'] ?? ''
  const base = target.subresource === 'scale' ? scaleOf(object) : object
  if (type.startsWith('application/merge-patch+json'))
    return write(store, response, target, object, mergePatch(withoutVersion(base), body))
  if (type.startsWith('application/json-patch+json')) {
    try {
      return write(store, response, target, object, jsonPatch(base, body))
    } catch (error) {
      if (!(error instanceof BadPatch)) throw error
      throw new Refusal(
        422,
        'Invalid',
        `the server rejected our request due to an error in our request: ${error.message}`,
      )
    }
  }
  const text = `the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json`
  throw new Refusal(415, 'UnsupportedMediaType', text)
}

/** Deletes at once, or when the finalizers are gone. Throws Refusal. */
export function remove(
  store: ObjectStore,
  { plural, query }: Target,
  object: KubeObject,
  body: Record<string, unknown>,
): object {
  const { name, uid, resourceVersion } = object.metadata
  const asked = (body['preconditions'] ?? {}) as { uid?: string; resourceVersion?: string }
  if ((asked.uid ?? uid) !== uid || (asked.resourceVersion ?? resourceVersion) !== resourceVersion)
    throw new Refusal(
      409,
      'Conflict',
      `Precondition failed: ${shown(plural)} "${name}" is another one by now`,
    )
  const policy = body['propagationPolicy'] ?? query.get('propagationPolicy')
  const graceSeconds =
    object.kind === 'Pod' ? graceOf(object, body['gracePeriodSeconds'] ?? query.get('gracePeriodSeconds')) : 0
  const left = store.delete(object, policy === 'Foreground' ? FOREGROUND : undefined, graceSeconds)
  // Like the real server, answers with the object for a pod, or if finalizers remain. Otherwise with a
  // Status.
  if (object.kind === 'Pod' || (left.metadata.finalizers ?? []).length > 0) return left
  const details = { name, group: groupOf(plural), kind: plural, uid }
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details }
}

/** The scale subresource of a pool. */
export function scaleOf({ metadata, spec, status }: KubeObject): object {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = metadata
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: { name, namespace, uid, resourceVersion, creationTimestamp },
    spec: { replicas: Number(spec['replicas'] ?? 1) },
    status: { replicas: Number(status?.['replicas'] ?? 0), selector: status?.['selector'] ?? '' },
  }
}

function write(
  store: ObjectStore,
  response: ServerResponse,
  { plural, subresource, query }: Target,
  object: KubeObject,
  wanted: unknown,
): object {
  const { name, resourceVersion } = object.metadata
  const given = wanted as Partial<KubeObject>
  const version = (given.metadata as Partial<Metadata> | undefined)?.resourceVersion
  if (version !== undefined && version !== resourceVersion)
    throw new Refusal(
      409,
      'Conflict',
      `Operation cannot be fulfilled on ${shown(plural)} "${name}": the object has been modified; please apply your changes to the latest version and try again`,
    )
  // Each subresource changes only its own part.
  if (subresource === 'status')
    return store.update(object, { status: checkedStatus(plural, name, given.status ?? {}, query, response) })
  const spec = subresource === 'scale' ? { ...object.spec, replicas: given.spec?.['replicas'] } : given.spec
  const checked = checkedSpec(plural, name, spec, query, response)
  if (subresource === 'scale') return scaleOf(store.update(object, { spec: checked }))
  if (
    plural === 'pods' &&
    JSON.stringify(checked) !== JSON.stringify(checkedSpec(plural, name, object.spec, query, response))
  )
    throw invalid(plural, name, [
      {
        reason: 'FieldValueForbidden',
        field: 'spec',
        message: 'Forbidden: pod updates may not change fields other than those that a node reads again',
      },
    ])
  checkMetadata(plural, { ...given.metadata, name })
  const system = Object.fromEntries(SYSTEM.map((key) => [key, object.metadata[key]]))
  const cleared = Object.fromEntries(Object.keys(object.metadata).map((key) => [key, undefined]))
  return store.update(object, {
    spec: checked,
    metadata: { ...cleared, ...given.metadata, ...system } as Partial<Metadata>,
  })
}

/** Seconds for a pod to end: from the call, its spec, or the default. */
function graceOf({ spec }: KubeObject, asked: unknown): number {
  const seconds = Number(asked ?? spec['terminationGracePeriodSeconds'] ?? GRACE_SECONDS)
  return Number.isInteger(seconds) && seconds >= 0 ? seconds : GRACE_SECONDS
}

const suffix = (): string => Math.random().toString(36).slice(2, 7)

/** A merge patch without a version applies to any version. */
function withoutVersion(object: object): object {
  const { metadata, ...rest } = object as KubeObject
  return { ...rest, metadata: { ...metadata, resourceVersion: undefined } }
}
