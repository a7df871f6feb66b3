/**
 * Kubernetes' garbage collector. It deletes owned objects in the background after their owner, or in the
 * foreground before it.
 */
import { PLURALS, type KubeObject, type ObjectStore } from './object-store.ts'
import type { SandboxPods } from './sandbox-pods.ts'

/** The finalizer that is removed when all owned objects are gone. */
export const FOREGROUND = 'foregroundDeletion'

/** Whether an object waits for its owned objects to be deleted. */
export const isGoing = ({ metadata: { deletionTimestamp, finalizers = [] } }: KubeObject): boolean =>
  deletionTimestamp !== undefined && finalizers.includes(FOREGROUND)

/** Ends the pods of a claim, a pool or a Sandbox. */
export async function endOwned(pods: SandboxPods, { kind, metadata }: KubeObject): Promise<void> {
  const owned =
    kind === 'Sandbox' ? pods.all().filter(({ sandbox }) => sandbox === metadata.name) : pods.of(metadata.uid)
  await Promise.all(owned.map((running) => pods.end(running)))
}

/** Foreground deletion: owned objects first, then the object. */
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
