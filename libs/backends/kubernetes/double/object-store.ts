/**
 * Objects as an API server keeps them: one resource version for all, a log of events that forgets, generations that
 * count changes of spec alone.
 */
import { randomUUID } from 'node:crypto'
import { requirePublished } from './schemas.ts'

/** Versions older than this many events are answered with 410 Gone. */
const LOG_MAX = 1000

export interface Metadata {
  name: string
  namespace: string
  uid: string
  resourceVersion: string
  generation: number
  creationTimestamp: string
  deletionTimestamp?: string
  /** Of a pod: it stays so long after its deletion, or until its node says that it has ended. */
  deletionGracePeriodSeconds?: number
  labels?: Record<string, string>
  annotations?: Record<string, string>
  /** While it has one, a deleted object stays. */
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
  /** As it was before; undefined for a new one. */
  before: KubeObject | undefined
}

/** Name of a kind in paths. */
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

  /** Of one namespace, or of all. */
  list(plural: string, namespace?: string): KubeObject[] {
    const prefix = namespace === undefined ? `${plural}/` : `${plural}/${namespace}/`
    return [...this.#objects].filter(([key]) => key.startsWith(prefix)).map(([, object]) => object)
  }

  /** Undefined when the name is taken. */
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

  /** Writes a changed copy; `generation` counts when the spec differs. One that was deleted goes with its last finalizer. */
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
   * Deletes it once it has no finalizer; `finalizer` is put on first. What is being deleted already stays as
   * it is, unless it is to go sooner. With a grace, which pods have, it stays until it is removed.
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

  /** Events after a version; null when the log no longer reaches back so far. */
  since(version: number): StoreEvent[] | null {
    if (version < this.#forgotten) return null
    return this.#log.filter((event) => event.version > version)
  }

  /** Forgets old events, as etcd's compaction does. */
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
