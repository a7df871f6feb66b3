/**
 * Kinds that the double stores and does nothing else with: those of a fleet that is installed beside its
 * sandboxes. Objects are created, read, listed and deleted; they cannot be changed.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { randomUUID } from 'node:crypto'
import { json, Refusal } from './answers.ts'
import { metadataCauses } from './labels.ts'
import { tableOf, wantsTable } from './tables.ts'
import type { KubeObject } from './object-store.ts'

/** Kinds by group and version, each with its name in paths. */
const STORED: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  v1: {
    ConfigMap: 'configmaps',
    PersistentVolumeClaim: 'persistentvolumeclaims',
    Secret: 'secrets',
    Service: 'services',
    ServiceAccount: 'serviceaccounts',
  },
  'apps/v1': { Deployment: 'deployments' },
  'autoscaling/v2': { HorizontalPodAutoscaler: 'horizontalpodautoscalers' },
  'batch/v1': { Job: 'jobs' },
  'external-secrets.io/v1': { ExternalSecret: 'externalsecrets' },
  'keda.sh/v1alpha1': { ScaledObject: 'scaledobjects' },
  'monitoring.coreos.com/v1': { ServiceMonitor: 'servicemonitors' },
  'networking.k8s.io/v1': { Ingress: 'ingresses', NetworkPolicy: 'networkpolicies' },
  'policy/v1': { PodDisruptionBudget: 'poddisruptionbudgets' },
  'rbac.authorization.k8s.io/v1': { Role: 'roles', RoleBinding: 'rolebindings' },
}

const VERBS = ['create', 'delete', 'get', 'list']

/** Groups with their only version, for discovery; the core group is not among them. */
export const storedGroups = (): { group: string; version: string }[] =>
  Object.keys(STORED)
    .filter((one) => one.includes('/'))
    .map((one) => ({ group: one.split('/')[0] ?? '', version: one.split('/')[1] ?? '' }))

/** Resources of `v1`, `apps/v1` and the like, as discovery lists them; none for an unknown one. */
export const storedResources = (groupVersion: string): object[] =>
  Object.entries(STORED[groupVersion] ?? {}).map(([kind, name]) => ({
    name,
    singularName: kind.toLowerCase(),
    namespaced: true,
    kind,
    verbs: VERBS,
  }))

interface Asked {
  apiVersion: string
  kind: string
  plural: string
  namespace: string | undefined
  name: string | undefined
}

/** What a path asks for; null if it is no kind of this file. */
export function storedPath(pathname: string): Asked | null {
  const match =
    /^\/apis?\/((?:[a-z0-9.-]+\/)?v[a-z0-9]+)(?:\/namespaces\/([^/]+))?\/([a-z]+)(?:\/([^/]+))?$/.exec(
      pathname,
    )
  const [, apiVersion = '', namespace, plural = '', name] = match ?? []
  const kind = Object.entries(STORED[apiVersion] ?? {}).find(([, one]) => one === plural)?.[0]
  return kind === undefined ? null : { apiVersion, kind, plural, namespace, name }
}

/** Keeps the objects of these kinds. */
export class StoredKinds {
  readonly #objects = new Map<string, KubeObject>()

  /** Answers a request. Throws Refusal. */
  answer(
    request: IncomingMessage,
    response: ServerResponse,
    asked: Asked,
    body: Record<string, unknown>,
  ): void {
    const { plural, namespace, name } = asked
    if (request.method === 'POST' && namespace !== undefined && name === undefined)
      return json(response, 201, this.#create({ ...asked, namespace }, body))
    if (request.method === 'GET' && name === undefined) {
      const prefix = namespace === undefined ? `${plural}/` : `${plural}/${namespace}/`
      const items = [...this.#objects].filter(([key]) => key.startsWith(prefix)).map(([, object]) => object)
      if (wantsTable(request.headers.accept)) return json(response, 200, tableOf(plural, items, {}))
      const { apiVersion, kind } = asked
      return json(response, 200, { apiVersion, kind: `${kind}List`, metadata: {}, items })
    }
    const key = `${plural}/${namespace}/${name}`
    const object = this.#objects.get(key)
    if (object === undefined) throw new Refusal(404, 'NotFound', `${plural} "${name}" not found`)
    if (request.method === 'GET') return json(response, 200, object)
    if (request.method !== 'DELETE')
      throw new Refusal(405, 'MethodNotAllowed', `${request.method} is not served here`)
    this.#objects.delete(key)
    json(response, 200, { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success' })
  }

  #create(asked: Asked & { namespace: string }, body: Record<string, unknown>): KubeObject {
    const { apiVersion, kind, plural, namespace } = asked
    const given = body as unknown as KubeObject
    if (given.kind !== kind || given.apiVersion !== apiVersion)
      throw new Refusal(
        400,
        'BadRequest',
        `the object provided is unrecognized: expected ${apiVersion} ${kind}`,
      )
    if ((given.metadata.namespace ?? namespace) !== namespace)
      throw new Refusal(400, 'BadRequest', 'the namespace of the object does not match that of the request')
    const causes = metadataCauses(given.metadata)
    if (causes.length > 0)
      throw new Refusal(422, 'Invalid', `${kind} is invalid: ${causes[0]?.message}`, { causes })
    const key = `${plural}/${namespace}/${given.metadata.name}`
    if (this.#objects.has(key))
      throw new Refusal(409, 'AlreadyExists', `${plural} "${given.metadata.name}" already exists`)
    const system = { uid: randomUUID(), resourceVersion: '1', creationTimestamp: new Date().toISOString() }
    const created = { ...given, metadata: { ...given.metadata, namespace, ...system } }
    this.#objects.set(key, created)
    return created
  }
}
