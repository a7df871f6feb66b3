/** Pods as API objects: as the Agent Sandbox controller creates them, and with a node's status. */
import type { KubeObject } from './object-store.ts'
import { podMetadata } from './pod-metadata.ts'

/** The only node; nobody connects to its address. */
const NODE = { name: 'cofferdam-double', ip: '127.1.255.253' }
/** Time for a deleted pod to end, unless its spec or the deletion sets another. */
export const GRACE_SECONDS = 30

/** Defaults of an API server (core/v1, PodSpec). */
const DEFAULTS = {
  restartPolicy: 'Always',
  dnsPolicy: 'ClusterFirst',
  schedulerName: 'default-scheduler',
  serviceAccountName: 'default',
  securityContext: {},
  terminationGracePeriodSeconds: GRACE_SECONDS,
}

/** The pod of a Sandbox, with the same name; `owner` is the reference to the Sandbox. */
export function podOf(
  sandbox: KubeObject,
  owner: NonNullable<KubeObject['metadata']['ownerReferences']>[number],
): Pick<KubeObject, 'apiVersion' | 'kind' | 'spec' | 'status'> & {
  metadata: Partial<KubeObject['metadata']>
} {
  const { name, namespace } = sandbox.metadata
  const { spec } = sandbox.spec['podTemplate'] as { spec: Record<string, unknown> }
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, ...podMetadata(sandbox), ownerReferences: [owner] },
    spec: { ...DEFAULTS, automountServiceAccountToken: false, ...spec, nodeName: NODE.name },
    status: { phase: 'Pending', qosClass: 'BestEffort', conditions: [condition('PodScheduled', 'True')] },
  }
}

/** Status once the pod's first process listens. */
export function runningStatus({ spec, metadata }: KubeObject, ip: string): Record<string, unknown> {
  return {
    phase: 'Running',
    qosClass: 'BestEffort',
    hostIP: NODE.ip,
    hostIPs: [{ ip: NODE.ip }],
    podIP: ip,
    podIPs: [{ ip }],
    startTime: metadata.creationTimestamp,
    conditions: ['PodScheduled', 'Initialized', 'ContainersReady', 'Ready'].map((type) =>
      condition(type, 'True'),
    ),
    containerStatuses: containersOf(spec, { running: { startedAt: now() } }, true),
  }
}

/** Status once the pod's first process has ended. */
export function endedStatus(pod: KubeObject, phase: 'Succeeded' | 'Failed'): Record<string, unknown> {
  const reason = phase === 'Succeeded' ? 'PodCompleted' : 'PodFailed'
  const exitCode = phase === 'Succeeded' ? 0 : 137
  const terminated = { exitCode, reason: phase === 'Succeeded' ? 'Completed' : 'Error', finishedAt: now() }
  return {
    ...pod.status,
    phase,
    conditions: [
      condition('PodScheduled', 'True'),
      condition('Initialized', 'True', reason),
      condition('ContainersReady', 'False', reason),
      condition('Ready', 'False', reason),
    ],
    containerStatuses: containersOf(pod.spec, { terminated }, false),
  }
}

const now = (): string => new Date().toISOString()

const condition = (type: string, status: 'True' | 'False', reason?: string): object => ({
  type,
  status,
  lastTransitionTime: now(),
  ...(reason === undefined ? {} : { reason }),
})

const containersOf = (spec: Record<string, unknown>, state: object, isReady: boolean): object[] =>
  (spec['containers'] as { name: string; image?: string }[]).map(({ name, image = '' }) => ({
    name,
    image,
    imageID: '',
    ready: isReady,
    started: isReady,
    restartCount: 0,
    state,
  }))
