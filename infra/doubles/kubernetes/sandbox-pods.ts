/** Sandboxes of the double and the pods that run for them: one of a name, owned by a pool (a spare) or by a claim. */
import type { KubeObject, Metadata, ObjectStore } from './object-store.ts'
import { startPod, type Pod, type Runtime } from './pod.ts'

const API = 'agents.x-k8s.io/v1beta1'

export type Owner = NonNullable<Metadata['ownerReferences']>[number]

/** A pod that runs, with its Sandbox as it was last. */
export interface Running {
  pod: Pod
  sandbox: string
  namespace: string
  owner: Owner
}

/** What tells of a pod's end. */
export interface PodEnd {
  sandbox: string
  namespace: string
  owner: Owner
  /** The phase that it ended in. */
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

  /** How many an owner has, those that are being started among them. */
  count(uid: string): number {
    return this.of(uid).length + [...this.#starting].filter((owner) => owner.uid === uid).length
  }

  /** Makes a Sandbox and its pod; undefined when the name is taken. */
  async start(name: string, namespace: string, owner: Owner): Promise<Running | undefined> {
    const sandbox = this.#store.create({
      apiVersion: API,
      kind: 'Sandbox',
      metadata: { name, namespace, ownerReferences: [owner] },
      spec: { podTemplate: { spec: { containers: [{ name: 'sandbox' }] } }, operatingMode: 'Running' },
    })
    if (sandbox === undefined) return undefined
    this.#starting.add(owner)
    const pod = await startPod(name, this.#agentFolder, this.#runtime).finally(() =>
      this.#starting.delete(owner),
    )
    const running = { pod, sandbox: name, namespace, owner }
    this.#running.set(name, running)
    void pod.ended.then(() => this.#ended(running))
    // Deleted while its pod was made.
    if (this.#store.get('sandboxes', namespace, name) === undefined) await this.end(running)
    else
      this.#store.update(sandbox, {
        status: { podIPs: [pod.ip], conditions: [ready('True', 'DependenciesReady')] },
      })
    return running
  }

  /** Hands a Sandbox over to another owner. */
  adopt(running: Running, owner: Owner): void {
    running.owner = owner
    const sandbox = this.#store.get('sandboxes', running.namespace, running.sandbox)
    if (sandbox !== undefined) this.#store.update(sandbox, { metadata: { ownerReferences: [owner] } })
  }

  /** Ends a pod from outside. */
  async end({ pod, sandbox }: Running): Promise<void> {
    this.#killed.add(sandbox)
    await pod[Symbol.asyncDispose]()
  }

  #ended({ sandbox: name, namespace, owner }: Running): void {
    const reason = this.#killed.delete(name) ? 'PodFailed' : 'PodSucceeded'
    this.#running.delete(name)
    const sandbox = this.#store.get('sandboxes', namespace, name)
    if (sandbox !== undefined) this.#store.remove(sandbox)
    this.#onEnd({ sandbox: name, namespace, owner, reason })
  }
}

/** A condition of that type. */
export const ready = (status: 'True' | 'False', reason: string): object => ({
  type: 'Ready',
  status,
  reason,
  message: reason,
  lastTransitionTime: new Date().toISOString(),
})

/** How an object stands in what it owns. */
export const ownerOf = ({ apiVersion, kind, metadata }: KubeObject): Owner => ({
  apiVersion,
  kind,
  name: metadata.name,
  uid: metadata.uid,
  controller: true,
  blockOwnerDeletion: true,
})
