/**
 * The controllers of Agent Sandbox as claims see them: a pool keeps ready pods, and a claim adopts a spare
 * one or starts its own, and times out.
 */
import { endOwned, finishDeletion, FOREGROUND, isGoing } from './garbage-collector.ts'
import type { KubeObject, ObjectStore, StoreEvent } from './object-store.ts'
import { adoptedBlueprint, coldBlueprint, forcesColdStart, poolOf, spareBlueprint } from './blueprints.ts'
import { misleadFirst, noFaults, type ControllerFaults } from './claim-faults.ts'
import { ASSIGNED_SANDBOX, faultOfAdditional } from './pod-metadata.ts'
import type { Runtime } from './pod.ts'
import { ownerOf, ready, SandboxPods, type PodEnd, type Running } from './sandbox-pods.ts'
import { startStranger, type RunningStranger, type Stranger } from './stranger.ts'

/** Interval of checks for `shutdownTime`. The real controller requeues at the exact time. */
const EXPIRY_MS = 200

export class Controller {
  readonly #store: ObjectStore
  readonly #pods: SandboxPods
  readonly #work = new Set<Promise<unknown>>()
  readonly #expiry: NodeJS.Timeout
  readonly #unlisten: () => void
  faults: ControllerFaults = noFaults()
  /** New claims wait for this. */
  #gate = Promise.withResolvers<undefined>()
  /** A server that is not a pod (stranger.ts). New claims first become ready with its address. */
  #stranger: RunningStranger | null = null
  #isClosed = false
  #count = 0

  constructor(store: ObjectStore, agentFolder: string, runtime: Runtime) {
    this.#store = store
    this.#pods = new SandboxPods(store, { agentFolder, runtime, onEnd: (end) => this.#podEnded(end) })
    this.#unlisten = store.onEvent((event) => this.#onEvent(event))
    this.#expiry = setInterval(() => this.#expire(), EXPIRY_MS)
    this.#expiry.unref()
    this.#gate.resolve(undefined)
  }

  /** Gives new claims no pod until the returned function is called. */
  hold(): () => void {
    this.#gate = Promise.withResolvers<undefined>()
    return () => this.#gate.resolve(undefined)
  }

  /** New claims first become ready with the address of a stranger (stranger.ts), until they lose it. */
  async misplace(answer: string): Promise<Stranger> {
    const stranger = await startStranger(answer)
    this.#stranger = stranger
    void stranger.lost.then(() => (this.#stranger = null))
    return stranger
  }

  /** Names of running pods with their claims. */
  running(): { pod: string; claim: string | null }[] {
    return this.#pods.all().map(({ sandbox, owner }) => ({
      pod: sandbox,
      claim: owner.kind === 'SandboxClaim' ? owner.name : null,
    }))
  }

  /** Ends a pod like a node failure. */
  async killPod(claim: string): Promise<void> {
    const found = this.#podOf(claim)
    if (found !== undefined) await this.#pods.end(found)
  }

  /** The claim's pod still accepts bytes but no longer answers. */
  async hangPod(claim: string): Promise<void> {
    await this.#podOf(claim)?.pod.hang()
  }

  /** Gives a claim another pod, as if another claim had won the first one, which keeps running. */
  async movePod(claim: string): Promise<void> {
    const found = this.#podOf(claim)
    const object = found === undefined ? undefined : this.#store.get('sandboxclaims', found.namespace, claim)
    if (found === undefined || object === undefined) return
    this.#pods.adopt(found, { ...ownerOf(object), name: 'another', uid: 'another' })
    this.#say(object, ready('False', 'AdoptionConflict'), {})
    const next = await this.#pods.start(
      `${claim}-again`,
      found.namespace,
      ownerOf(object),
      coldBlueprint(this.#store, object),
    )
    if (next !== undefined) this.#bound(object, next)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#expiry)
    this.#unlisten()
    this.#gate.resolve(undefined)
    this.#stranger?.lose()
    while (this.#work.size > 0) await Promise.all(this.#work)
    await Promise.all(this.#pods.all().map((running) => this.#pods.end(running)))
  }

  #onEvent({ type, plural, object }: StoreEvent): void {
    if (plural === 'sandboxclaims' && type === 'ADDED') this.#run(this.#bind(object))
    if (plural === 'sandboxwarmpools' && type !== 'DELETED') this.#run(this.#fill(object))
    if (type === 'DELETED') this.#run(endOwned(this.#pods, object))
    if (plural === 'pods' && (type === 'DELETED' || object.metadata.deletionTimestamp !== undefined))
      this.#run(this.#replace(object))
    if (type === 'MODIFIED' && isGoing(object)) this.#run(finishDeletion(this.#store, this.#pods, object))
  }

  #run(work: Promise<unknown>): void {
    const settled = work
      .catch((error: unknown) => console.error('controller:', error))
      .finally(() => this.#work.delete(settled))
    this.#work.add(settled)
  }

  #podOf(claim: string): Running | undefined {
    return this.#pods.all().find(({ owner }) => owner.kind === 'SandboxClaim' && owner.name === claim)
  }

  async #fill(pool: KubeObject): Promise<void> {
    const { name, namespace, uid } = pool.metadata
    const wanted = Number(pool.spec['replicas'] ?? 1)
    const current = (): KubeObject | undefined => this.#store.get('sandboxwarmpools', namespace, name)
    while (!this.#isClosed && this.#pods.count(uid) < wanted && current() !== undefined)
      await this.#pods.start(
        `${name}-${(this.#count++).toString(36).padStart(5, '0')}`,
        namespace,
        ownerOf(pool),
        spareBlueprint(this.#store, pool),
      )
    await Promise.all(
      this.#pods
        .of(uid)
        .slice(wanted)
        .map((surplus) => this.#pods.end(surplus)),
    )
    const count = this.#pods.of(uid).length
    const status = { replicas: count, readyReplicas: count, selector: `cofferdam-double/pool=${name}` }
    const now = current()
    if (now === undefined) await endOwned(this.#pods, pool)
    else if (now.status?.['readyReplicas'] !== count) this.#store.update(now, { status })
  }

  async #bind(claim: KubeObject): Promise<void> {
    await this.#gate.promise
    const { namespace, name, uid } = claim.metadata
    if (this.faults.refuse_claims > 0) {
      this.faults.refuse_claims -= 1
      return this.#say(claim, ready('False', this.faults.refuse_reason))
    }
    const wrong = faultOfAdditional(claim)
    if (wrong !== null) return this.#say(claim, ready('False', 'InvalidMetadata', wrong))
    const pool = poolOf(this.#store, claim)
    if (pool === undefined) return this.#say(claim, ready('False', 'WarmPoolNotFound'))
    await misleadFirst(claim, this.faults, this.#stranger, this.#say.bind(this))
    const isThere = (): boolean => {
      const found = this.#store.get('sandboxclaims', namespace, name)?.metadata
      return found?.uid === uid && found.deletionTimestamp === undefined
    }
    if (!isThere()) return
    const [spare] = forcesColdStart(claim) ? [] : this.#pods.of(pool.metadata.uid)
    const cold = conflictFree(() => coldBlueprint(this.#store, claim))
    if (cold instanceof Error)
      return this.#say(claim, ready('False', 'ReconcilerError', `Error seen: ${cold.message}`))
    // Adopt the spare before the next await, so that two claims never get the same pod.
    if (spare !== undefined)
      this.#pods.adopt(spare, ownerOf(claim), adoptedBlueprint(this.#store, spare, claim))
    const taken = spare ?? (await this.#pods.start(name, namespace, ownerOf(claim), cold))
    this.#run(this.#fill(pool))
    if (taken === undefined) this.#say(claim, ready('False', 'SandboxMissing'))
    else if (isThere()) this.#bound(claim, taken)
    else await this.#pods.end(taken)
  }

  /** Ends a deleted pod. Its Sandbox gets another pod with the same name. */
  async #replace({ metadata: { uid } }: KubeObject): Promise<void> {
    const left = await this.#pods.evict(uid)
    if (left === undefined || this.#isClosed) return
    const { namespace, owner, sandbox } = left
    const claimOf = (): KubeObject | undefined => {
      const claim = this.#store.get('sandboxclaims', namespace, owner.name)
      return claim?.metadata.uid === owner.uid ? claim : undefined
    }
    const bereft = claimOf()
    if (bereft !== undefined)
      this.#say(bereft, ready('False', 'DependenciesNotReady', 'Pod does not exist'), {
        name: sandbox,
        podIPs: [],
      })
    const next = await this.#pods.restart(left)
    const owners = owner.kind === 'SandboxClaim' ? 'sandboxclaims' : 'sandboxwarmpools'
    const claim = claimOf()
    if (next === undefined) return
    if (this.#store.get(owners, namespace, owner.name)?.metadata.uid !== owner.uid) await this.#pods.end(next)
    else if (claim !== undefined) this.#bound(claim, next)
  }

  #bound(claim: KubeObject, { sandbox, pod }: Running): void {
    const status = { name: sandbox, podIPs: [pod.ip] }
    this.#say(claim, ready('True', 'DependenciesReady'), status, { [ASSIGNED_SANDBOX]: sandbox })
  }

  #say({ metadata }: KubeObject, condition: object, sandbox?: object, annotations?: object): void {
    const claim = this.#store.get('sandboxclaims', metadata.namespace, metadata.name)
    if (claim?.metadata.uid !== metadata.uid) return
    const status = { ...claim.status, conditions: [condition], ...(sandbox === undefined ? {} : { sandbox }) }
    const noted = annotations && {
      metadata: { annotations: { ...claim.metadata.annotations, ...annotations } },
    }
    this.#store.update(claim, { status, ...noted })
  }

  #podEnded({ namespace, owner, reason }: PodEnd): void {
    const claim = this.#store.get('sandboxclaims', namespace, owner.name)
    if (this.#isClosed || claim?.metadata.uid !== owner.uid || isExpired(claim)) return
    this.#say(claim, ready('False', reason))
  }

  #expire(): void {
    for (const claim of this.#store.list('sandboxclaims')) {
      const { shutdownTime, shutdownPolicy } = (claim.spec['lifecycle'] ?? {}) as Record<
        string,
        string | undefined
      >
      if (shutdownTime === undefined || Date.parse(shutdownTime) > Date.now()) continue
      if (claim.metadata.deletionTimestamp !== undefined || isExpired(claim)) continue
      this.#say(claim, ready('False', 'ClaimExpired'))
      if (shutdownPolicy === 'Delete') this.#store.delete(claim)
      else if (shutdownPolicy === 'DeleteForeground') this.#store.delete(claim, FOREGROUND)
      else this.#run(endOwned(this.#pods, claim))
    }
  }
}

/** Returns the error that `make` throws, which is a metadata conflict of a claim. */
function conflictFree<T>(make: () => T): T | Error {
  try {
    return make()
  } catch (error) {
    return error as Error
  }
}

function isExpired({ status }: KubeObject): boolean {
  const conditions = (status?.['conditions'] ?? []) as { reason?: string }[]
  return conditions.some(({ reason }) => reason === 'ClaimExpired')
}
