/**
 * The double's Sandboxes and their pods. A Sandbox and its pod share a name. Their owner is a pool (a spare)
 * or a claim.
 */
import type { KubeObject, Metadata, ObjectStore } from './object-store.ts'
import { POD_NAME, podMetadata, podSelector, type PodMetadata } from './pod-metadata.ts'
import { endedStatus, podOf, runningStatus } from './pod-objects.ts'
import { startPod, type Pod, type Runtime } from './pod.ts'

const API = 'agents.x-k8s.io/v1beta1'

export type Owner = NonNullable<Metadata['ownerReferences']>[number]

/** Template of a Sandbox. */
export interface Blueprint {
  /** Metadata of the Sandbox itself. */
  metadata: Required<PodMetadata>
  podTemplate: { metadata?: PodMetadata; spec: object }
}

/** A running pod, with the latest version of its Sandbox. */
export interface Running {
  pod: Pod
  /** Uid of the pod's object. */
  uid: string
  sandbox: string
  namespace: string
  owner: Owner
}

export interface PodEnd {
  sandbox: string
  namespace: string
  owner: Owner
  /** The phase in which the pod ended. */
  reason: 'PodFailed' | 'PodSucceeded'
}

export class SandboxPods {
  readonly #store: ObjectStore
  readonly #agentFolder: string
  readonly #runtime: Runtime
  readonly #onEnd: (end: PodEnd) => void
  readonly #running = new Map<string, Running>()
  readonly #starting = new Set<Owner>()
  readonly #killed = new Set<string>()
  readonly #evicted = new Set<string>()

  constructor(
    store: ObjectStore,
    parts: { agentFolder: string; runtime: Runtime; onEnd: (end: PodEnd) => void },
  ) {
    this.#store = store
    this.#agentFolder = parts.agentFolder
    this.#runtime = parts.runtime
    this.#onEnd = parts.onEnd
  }

  all(): Running[] {
    return [...this.#running.values()]
  }

  of(uid: string): Running[] {
    return this.all().filter(({ owner }) => owner.uid === uid)
  }

  /** Number of an owner's pods, including those that are starting. */
  count(uid: string): number {
    return this.of(uid).length + [...this.#starting].filter((owner) => owner.uid === uid).length
  }

  /** Creates a Sandbox and its pod; undefined if the name is taken. */
  async start(
    name: string,
    namespace: string,
    owner: Owner,
    { metadata, podTemplate }: Blueprint,
  ): Promise<Running | undefined> {
    const sandbox = this.#store.create({
      apiVersion: API,
      kind: 'Sandbox',
      metadata: { name, namespace, ...metadata, ownerReferences: [owner] },
      spec: { podTemplate, operatingMode: 'Running' },
    })
    return sandbox === undefined ? undefined : await this.#startPod(sandbox, owner)
  }

  /** Gives a Sandbox to another owner. `change` replaces its template; its pod's metadata follow. */
  adopt(running: Running, owner: Owner, change?: Blueprint): void {
    running.owner = owner
    const { namespace, sandbox: name } = running
    const sandbox = this.#store.get('sandboxes', namespace, name)
    if (sandbox === undefined) return
    const spec = change === undefined ? {} : { spec: { ...sandbox.spec, podTemplate: change.podTemplate } }
    const metadata = { ...change?.metadata, ownerReferences: [owner] }
    const adopted = this.#store.update(sandbox, { ...spec, metadata })
    const pod = this.#store.get('pods', namespace, name)
    if (pod !== undefined) this.#store.update(pod, { metadata: podMetadata(adopted) })
  }

  /** Ends a pod whose object was deleted, but not its Sandbox. Undefined if the pod does not run. */
  async evict(uid: string): Promise<Pick<Running, 'sandbox' | 'namespace' | 'owner'> | undefined> {
    const running = this.all().find((one) => one.uid === uid)
    if (running === undefined || this.#evicted.has(uid)) return undefined
    this.#evicted.add(uid)
    await this.end(running)
    this.#evicted.delete(uid)
    const { sandbox: name, namespace, owner } = running
    const sandbox = this.#store.get('sandboxes', namespace, name)
    if (sandbox === undefined) return undefined
    this.#store.update(sandbox, {
      status: { podIPs: [], conditions: [ready('False', 'DependenciesNotReady')] },
    })
    return { sandbox: name, namespace, owner }
  }

  /** Creates the pod of a Sandbox again; undefined if the Sandbox is gone. */
  async restart({
    sandbox: name,
    namespace,
    owner,
  }: Pick<Running, 'sandbox' | 'namespace' | 'owner'>): Promise<Running | undefined> {
    const sandbox = this.#store.get('sandboxes', namespace, name)
    return sandbox === undefined ? undefined : await this.#startPod(sandbox, owner)
  }

  /** Ends a pod that did not end by itself. */
  async end({ pod, sandbox }: Running): Promise<void> {
    this.#killed.add(sandbox)
    await pod[Symbol.asyncDispose]()
  }

  async #startPod(sandbox: KubeObject, owner: Owner): Promise<Running> {
    const { name, namespace } = sandbox.metadata
    const object = this.#store.create(podOf(sandbox, ownerOf(sandbox)))
    this.#starting.add(owner)
    const pod = await startPod(name, this.#agentFolder, this.#runtime).finally(() =>
      this.#starting.delete(owner),
    )
    const running = { pod, uid: object?.metadata.uid ?? '', sandbox: name, namespace, owner }
    this.#running.set(name, running)
    void pod.ended.then(() => this.#ended(running))
    const current = this.#store.get('sandboxes', namespace, name)
    const isDeleted = this.#store.get('pods', namespace, name)?.metadata.uid !== running.uid
    // The Sandbox or the pod's object was deleted while the pod started.
    if (current === undefined || isDeleted) await this.end(running)
    else this.#ready(running, current)
    return running
  }

  #ready({ sandbox: name, namespace, pod }: Running, sandbox: KubeObject): void {
    const object = this.#store.get('pods', namespace, name)
    if (object !== undefined) this.#store.update(object, { status: runningStatus(object, pod.ip) })
    const conditions = [ready('True', 'DependenciesReady')]
    this.#store.update(sandbox, {
      metadata: { annotations: { ...sandbox.metadata.annotations, [POD_NAME]: name } },
      status: { podIPs: [pod.ip], selector: podSelector(name), conditions },
    })
  }

  #ended({ sandbox: name, namespace, owner, uid }: Running): void {
    const reason = this.#killed.delete(name) ? 'PodFailed' : 'PodSucceeded'
    this.#running.delete(name)
    const pod = this.#store.get('pods', namespace, name)
    if (pod?.metadata.uid === uid) {
      const phase = reason === 'PodFailed' ? 'Failed' : 'Succeeded'
      this.#store.remove(this.#store.update(pod, { status: endedStatus(pod, phase) }))
    }
    if (this.#evicted.has(uid)) return
    const sandbox = this.#store.get('sandboxes', namespace, name)
    if (sandbox !== undefined) this.#store.remove(sandbox)
    this.#onEnd({ sandbox: name, namespace, owner, reason })
  }
}

/** The Ready condition with that status. */
export const ready = (status: 'True' | 'False', reason: string, message = reason): object => ({
  type: 'Ready',
  status,
  reason,
  message,
  lastTransitionTime: new Date().toISOString(),
})

/** The owner reference to an object. */
export const ownerOf = ({ apiVersion, kind, metadata }: KubeObject): Owner => ({
  apiVersion,
  kind,
  name: metadata.name,
  uid: metadata.uid,
  controller: true,
  blockOwnerDeletion: true,
})
