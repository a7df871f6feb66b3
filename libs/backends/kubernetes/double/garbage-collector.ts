/** Kubernetes' garbage collector: what an object owns goes with it, in the background after it or in the foreground before. */
import { PLURALS, type KubeObject, type ObjectStore } from './object-store.ts'
import type { SandboxPods } from './sandbox-pods.ts'

/** The finalizer that is taken off when all that an object owns is gone. */
export const FOREGROUND = 'foregroundDeletion'

/** True for one that waits for what it owns. */
export const isGoing = ({ metadata: { deletionTimestamp, finalizers = [] } }: KubeObject): boolean =>
  deletionTimestamp !== undefined && finalizers.includes(FOREGROUND)

/** Ends the pods of a claim, a pool or a Sandbox. */
export async function endOwned(pods: SandboxPods, { kind, metadata }: KubeObject): Promise<void> {
  const owned =
    kind === 'Sandbox' ? pods.all().filter(({ sandbox }) => sandbox === metadata.name) : pods.of(metadata.uid)
  await Promise.all(owned.map((running) => pods.end(running)))
}

/** Deletion in the foreground: what it owns, then itself. */
export async function finishDeletion(
  store: ObjectStore,
  pods: SandboxPods,
  object: KubeObject,
): Promise<void> {
  await endOwned(pods, object)
  const { namespace, name, uid } = object.metadata
  const current = store.get(PLURALS[object.kind] ?? '', namespace, name)
  if (current?.metadata.uid !== uid || !isGoing(current)) return
  const finalizers = (current.metadata.finalizers ?? []).filter((finalizer) => finalizer !== FOREGROUND)
  store.update(current, { metadata: { finalizers } })
}
