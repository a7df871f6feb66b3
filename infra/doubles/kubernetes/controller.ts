/**
 * The controller of Agent Sandbox, as far as claims see it: pools are filled with ready pods, a claim adopts a spare or
 * starts one of its own name, times out, and takes its pod with it when it goes.
 */
import { startPod, type Pod, type Runtime } from './pod.ts'
import type { KubeObject, Metadata, ObjectStore } from './object-store.ts'

export interface ControllerFaults {
  /** So many claims first lose their spare to another (`AdoptionConflict`), then get the next one. */
  lose_adoption: number
  /** So many claims end with this reason. */
  refuse_claims: number
  refuse_reason: string
}

interface Held {
  pod: Pod
  /** Null while it is a spare. */
  claim: string | null
}

const API = 'extensions.agents.x-k8s.io/v1beta1'
/** A look at `shutdownTime`s; the real controller requeues at the exact time. */
const EXPIRY_MS = 200

export class Controller {
  readonly #store: ObjectStore
  readonly #agentFolder: string
  readonly #runtime: Runtime
  readonly #pods = new Map<string, Held>()
  readonly #work = new Set<Promise<unknown>>()
  readonly #expiry: NodeJS.Timeout
  readonly #unlisten: () => void
  faults: ControllerFaults = { lose_adoption: 0, refuse_claims: 0, refuse_reason: 'TemplateNotFound' }
  #isClosed = false
  #count = 0

  constructor(store: ObjectStore, agentFolder: string, runtime: Runtime) {
    this.#runtime = runtime
    this.#store = store
    this.#agentFolder = agentFolder
    this.#unlisten = store.onEvent(({ type, plural, object }) => {
      if (plural === 'sandboxclaims' && type === 'ADDED') this.#run(this.#bind(object))
      if (
        plural === 'sandboxclaims' &&
        type === 'MODIFIED' &&
        object.metadata.deletionTimestamp !== undefined
      )
        this.#run(this.#finish(object))
      if (plural === 'sandboxwarmpools' && type !== 'DELETED') this.#run(this.#fill(object))
    })
    this.#expiry = setInterval(() => this.#expire(), EXPIRY_MS)
    this.#expiry.unref()
  }

  /** Names of pods that run, with the claim that they belong to. */
  running(): { pod: string; claim: string | null }[] {
    return [...this.#pods].map(([pod, { claim }]) => ({ pod, claim }))
  }

  /** Ends a pod as a node failure would. */
  async killPod(claim: string): Promise<void> {
    const found = [...this.#pods].find(([, held]) => held.claim === claim)
    await found?.[1].pod[Symbol.asyncDispose]()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#expiry)
    this.#unlisten()
    while (this.#work.size > 0) await Promise.all(this.#work)
    await Promise.all([...this.#pods.values()].map(({ pod }) => pod[Symbol.asyncDispose]()))
  }

  #run(work: Promise<unknown>): void {
    const settled = work
      .catch((error: unknown) => console.error('controller:', error))
      .finally(() => this.#work.delete(settled))
    this.#work.add(settled)
  }

  async #fill(pool: KubeObject): Promise<void> {
    const { name, namespace } = pool.metadata
    const wanted = Number(pool.spec['replicas'] ?? 1)
    while (!this.#isClosed && this.#spares(pool).length < wanted)
      await this.#startPod(
        `${name}-${(this.#count++).toString(36).padStart(5, '0')}`,
        namespace,
        ownerOf(pool),
      )
    const ready = this.#spares(pool).length
    const current = this.#store.get('sandboxwarmpools', namespace, name)
    if (current !== undefined && current.status?.['readyReplicas'] !== ready)
      this.#store.update(current, { status: { replicas: ready, readyReplicas: ready } })
  }

  #spares(pool: KubeObject): KubeObject[] {
    return this.#store
      .list('sandboxes', pool.metadata.namespace)
      .filter(
        ({ metadata }) =>
          metadata.ownerReferences?.[0]?.uid === pool.metadata.uid && this.#pods.has(metadata.name),
      )
  }

  async #startPod(
    name: string,
    namespace: string,
    owner: NonNullable<Metadata['ownerReferences']>[number],
  ): Promise<KubeObject | undefined> {
    const sandbox = this.#store.create({
      apiVersion: 'agents.x-k8s.io/v1beta1',
      kind: 'Sandbox',
      metadata: { name, namespace, ownerReferences: [owner] },
      spec: { operatingMode: 'Running' },
    })
    if (sandbox === undefined) return undefined
    const pod = await startPod(name, this.#agentFolder, this.#runtime)
    this.#pods.set(name, { pod, claim: null })
    void pod.ended.then(() => this.#podEnded(name, namespace))
    return this.#store.update(sandbox, {
      status: { podIPs: [pod.ip], conditions: [ready('True', 'DependenciesReady')] },
    })
  }

  #podEnded(name: string, namespace: string): void {
    const held = this.#pods.get(name)
    this.#pods.delete(name)
    const sandbox = this.#store.get('sandboxes', namespace, name)
    if (sandbox !== undefined) this.#store.remove(sandbox)
    const claim =
      held?.claim === null || held === undefined
        ? undefined
        : this.#store.get('sandboxclaims', namespace, held.claim)
    if (claim === undefined || this.#isClosed) return
    if (claim.metadata.deletionTimestamp === undefined) this.#say(claim, ready('False', 'PodSucceeded'))
    else this.#store.remove(claim)
  }

  async #bind(claim: KubeObject): Promise<void> {
    const { namespace, name } = claim.metadata
    if (this.faults.refuse_claims > 0) {
      this.faults.refuse_claims -= 1
      return this.#say(claim, ready('False', this.faults.refuse_reason))
    }
    const poolName = String((claim.spec['warmPoolRef'] as { name?: unknown } | undefined)?.name)
    const pool = this.#store.get('sandboxwarmpools', namespace, poolName)
    if (pool === undefined) return this.#say(claim, ready('False', 'WarmPoolNotFound'))
    if (this.faults.lose_adoption > 0) {
      this.faults.lose_adoption -= 1
      this.#say(claim, ready('False', 'AdoptionConflict'))
    }
    const [spare] = this.#spares(pool)
    // Taken at once: two claims of one moment must not get one pod.
    const taken =
      spare === undefined
        ? await this.#startPod(name, namespace, ownerOf(claim))
        : this.#store.update(spare, { metadata: { ownerReferences: [ownerOf(claim)] } })
    this.#run(this.#fill(pool))
    const held = taken === undefined ? undefined : this.#pods.get(taken.metadata.name)
    if (taken === undefined || held === undefined) return this.#say(claim, ready('False', 'SandboxMissing'))
    held.claim = name
    const current = this.#store.get('sandboxclaims', namespace, name)
    if (current === undefined || current.metadata.deletionTimestamp !== undefined) {
      await held.pod[Symbol.asyncDispose]()
      if (current !== undefined) this.#store.remove(current)
      return
    }
    this.#say(current, ready('True', 'DependenciesReady'), {
      name: taken.metadata.name,
      podIPs: [held.pod.ip],
    })
  }

  #say(claim: KubeObject, condition: object, sandbox?: object): void {
    this.#store.update(claim, {
      status: { ...claim.status, conditions: [condition], ...(sandbox === undefined ? {} : { sandbox }) },
    })
  }

  /** A claim that is to go: its pod first. */
  async #finish(claim: KubeObject): Promise<void> {
    const found = [...this.#pods.values()].find((held) => held.claim === claim.metadata.name)
    if (found === undefined) this.#store.remove(claim)
    else await found.pod[Symbol.asyncDispose]()
  }

  #expire(): void {
    for (const claim of this.#store.list('sandboxclaims')) {
      const lifecycle = claim.spec['lifecycle'] as
        | { shutdownTime?: string; shutdownPolicy?: string }
        | undefined
      if (lifecycle?.shutdownTime === undefined || Date.parse(lifecycle.shutdownTime) > Date.now()) continue
      if (claim.metadata.deletionTimestamp !== undefined) continue
      if (lifecycle.shutdownPolicy?.startsWith('Delete') === true)
        this.#store.update(claim, { metadata: { deletionTimestamp: new Date().toISOString() } })
      else this.#say(claim, ready('False', 'ClaimExpired'))
    }
  }
}

const ready = (status: 'True' | 'False', reason: string): object => ({
  type: 'Ready',
  status,
  reason,
  message: reason,
  lastTransitionTime: new Date().toISOString(),
})

const ownerOf = ({
  kind,
  metadata,
}: KubeObject): { apiVersion: string; kind: string; name: string; uid: string } => ({
  apiVersion: API,
  kind,
  name: metadata.name,
  uid: metadata.uid,
})
