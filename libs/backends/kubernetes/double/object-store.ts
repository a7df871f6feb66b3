/**
 * Objects like in an API server: one resource version for all, a log of events that forgets old ones, and
 * generations that count only changes of the spec.
 */
import { randomUUID } from 'node:crypto'
import { requirePublished } from './schemas.ts'

/** A watch that is more events behind than this gets 410 Gone. */
const LOG_MAX = 1000

export interface Metadata {
  name: string
  namespace: string
  uid: string
  resourceVersion: string
  generation: number
  creationTimestamp: string
  deletionTimestamp?: string
  /** For a pod: it stays this long after its deletion, or until its node reports its end. */
  deletionGracePeriodSeconds?: number
  labels?: Record<string, string>
  annotations?: Record<string, string>
  /** A deleted object stays while it has finalizers. */
  finalizers?: string[]
  ownerReferences?: {
    apiVersion: string
    kind: string
    name: string
    uid: string
    controller: boolean
    blockOwnerDeletion: boolean
  }[]
}
export interface KubeObject {
  apiVersion: string
  kind: string
  metadata: Metadata
  spec: Record<string, unknown>
  status?: Record<string, unknown>
}
export interface StoreEvent {
  version: number
  type: 'ADDED' | 'MODIFIED' | 'DELETED'
  plural: string
  object: KubeObject
  /** The object before the change; undefined for a new one. */
  before: KubeObject | undefined
}

/** Names of kinds in paths. */
export const PLURALS: Record<string, string> = {
  SandboxClaim: 'sandboxclaims',
  SandboxWarmPool: 'sandboxwarmpools',
  SandboxTemplate: 'sandboxtemplates',
  Sandbox: 'sandboxes',
  Pod: 'pods',
}

export class ObjectStore {
  readonly #objects = new Map<string, KubeObject>()
  readonly #listeners = new Set<(event: StoreEvent) => void>()
  #log: StoreEvent[] = []
  #version = 1
  /** Newest version that the log no longer holds. */
  #forgotten = 0

  get version(): number {
    return this.#version
  }

  get(plural: string, namespace: string, name: string): KubeObject | undefined {
    return this.#objects.get(`${plural}/${namespace}/${name}`)
  }

  /** Objects of one namespace, or of all. */
  list(plural: string, namespace?: string): KubeObject[] {
    const prefix = namespace === undefined ? `${plural}/` : `${plural}/${namespace}/`
    return [...this.#objects].filter(([key]) => key.startsWith(prefix)).map(([, object]) => object)
  }

  /** Undefined if the name is taken. */
  create(
    given: Pick<KubeObject, 'apiVersion' | 'kind' | 'spec' | 'status'> & { metadata: Partial<Metadata> },
  ): KubeObject | undefined {
    const { name = '', namespace = 'default' } = given.metadata
    const plural = PLURALS[given.kind] ?? ''
    if (this.get(plural, namespace, name) !== undefined) return undefined
    const metadata: Metadata = {
      ...given.metadata,
      name,
      namespace,
      uid: randomUUID(),
      resourceVersion: '',
      generation: 1,
      creationTimestamp: new Date().toISOString(),
    }
    return this.#write('ADDED', plural, { ...given, metadata })
  }

  /**
   * Writes a changed copy, and increments `generation` if the spec changed. An object that was deleted is
   * removed when its last finalizer and its grace time are gone.
   */
  update(
    object: KubeObject,
    change: Partial<Pick<KubeObject, 'spec' | 'status'>> & { metadata?: Partial<Metadata> },
  ): KubeObject {
    const current =
      this.get(PLURALS[object.kind] ?? '', object.metadata.namespace, object.metadata.name) ?? object
    const isNewSpec =
      change.spec !== undefined && JSON.stringify(change.spec) !== JSON.stringify(current.spec)
    const metadata = {
      ...current.metadata,
      ...change.metadata,
      generation: current.metadata.generation + (isNewSpec ? 1 : 0),
    }
    const { deletionTimestamp, deletionGracePeriodSeconds = 0, finalizers = [] } = metadata
    const isOver =
      deletionTimestamp !== undefined && finalizers.length === 0 && deletionGracePeriodSeconds === 0
    const changed = { ...current, ...change, metadata }
    return this.#write(isOver ? 'DELETED' : 'MODIFIED', PLURALS[object.kind] ?? '', changed)
  }

  /**
   * Adds `finalizer` and marks the object as deleted. It is gone once it has no finalizer. If it is marked
   * already, only a shorter grace time changes it. A pod with a grace time stays until `remove`.
   */
  delete(object: KubeObject, finalizer?: string, graceSeconds = 0): KubeObject {
    const { metadata } = object
    const isSooner = graceSeconds < (metadata.deletionGracePeriodSeconds ?? 0)
    if (metadata.deletionTimestamp !== undefined && !isSooner) return object
    const finalizers = [...(metadata.finalizers ?? []), ...(finalizer === undefined ? [] : [finalizer])]
    const deletionTimestamp = new Date(Date.now() + graceSeconds * 1000).toISOString()
    const grace = object.kind === 'Pod' ? { deletionGracePeriodSeconds: graceSeconds } : {}
    return this.update(object, { metadata: { deletionTimestamp, finalizers, ...grace } })
  }

  remove(object: KubeObject): void {
    const plural = PLURALS[object.kind] ?? ''
    const current = this.get(plural, object.metadata.namespace, object.metadata.name)
    if (current !== undefined) this.#write('DELETED', plural, current)
  }

  /** Events after a version; null if the log no longer goes back so far. */
  since(version: number): StoreEvent[] | null {
    if (version < this.#forgotten) return null
    return this.#log.filter((event) => event.version > version)
  }

  /** Forgets old events, like etcd's compaction. */
  compact(): void {
    this.#forgotten = this.#version
    this.#log = []
  }

  onEvent(listener: (event: StoreEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #write(type: StoreEvent['type'], plural: string, object: KubeObject): KubeObject {
    requirePublished(object)
    this.#version += 1
    const written = {
      ...object,
      metadata: { ...object.metadata, resourceVersion: String(this.#version) },
    }
    const key = `${plural}/${object.metadata.namespace}/${object.metadata.name}`
    const before = this.#objects.get(key)
    if (type === 'DELETED') this.#objects.delete(key)
    else this.#objects.set(key, written)
    const event: StoreEvent = { version: this.#version, type, plural, object: written, before }
    this.#log.push(event)
    if (this.#log.length > LOG_MAX) this.#forgotten = this.#log.shift()?.version ?? 0
    for (const listener of this.#listeners) listener(event)
    return written
  }
}
