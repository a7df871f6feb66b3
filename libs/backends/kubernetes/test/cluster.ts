/** Requests of the `kubernetes` tests to the double's API server, like an operator's with kubectl. */
import { expect } from 'vitest'
import type { KubernetesDouble } from '../double/kubernetes-double.ts'

type Cluster = Pick<KubernetesDouble, 'origin'>

const GROUP = 'extensions.agents.x-k8s.io/v1beta1'
const NAMESPACE = `/apis/${GROUP}/namespaces/cofferdam-sandboxes`

export const claimPath = (claim: string): string => `${NAMESPACE}/sandboxclaims/${claim}`
export const claimUrl = ({ origin }: Cluster, claim: string): string => origin + claimPath(claim)
export const poolUrl = ({ origin }: Cluster): string => `${origin}${NAMESPACE}/sandboxwarmpools/cofferdam`

/** Creates a claim that no worker asked for. */
export async function makeClaim(
  { origin }: Cluster,
  metadata: { name: string; labels?: Record<string, string> },
): Promise<void> {
  const spec = { warmPoolRef: { name: 'cofferdam' } }
  const { status } = await fetch(`${origin}${NAMESPACE}/sandboxclaims`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ apiVersion: GROUP, kind: 'SandboxClaim', metadata, spec }),
  })
  expect(status).toBe(201)
}

/** Applies a merge patch to any object. */
export async function patched(url: string, change: object): Promise<void> {
  const { status } = await fetch(url, {
    method: 'PATCH',
    headers: { 'Content-Type': 'application/merge-patch+json' },
    body: JSON.stringify(change),
  })
  expect(status).toBe(200)
}

/** Sets the shutdown time, as if the cluster's clock had moved. */
export async function setShutdown(cluster: Cluster, claim: string, inMs: number): Promise<void> {
  const shutdownTime = new Date(Date.now() + inMs).toISOString()
  await patched(claimUrl(cluster, claim), { spec: { lifecycle: { shutdownTime } } })
}
