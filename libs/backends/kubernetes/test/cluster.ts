/** What the tests of `kubernetes` ask the double's API server themselves, as an operator does with kubectl. */
import { expect } from 'vitest'
import type { KubernetesDouble } from '../double/kubernetes-double.ts'

type Cluster = Pick<KubernetesDouble, 'origin'>

const GROUP = 'extensions.agents.x-k8s.io/v1beta1'
const NAMESPACE = `/apis/${GROUP}/namespaces/cofferdam-sandboxes`

export const claimPath = (claim: string): string => `${NAMESPACE}/sandboxclaims/${claim}`
export const claimUrl = ({ origin }: Cluster, claim: string): string => origin + claimPath(claim)
export const poolUrl = ({ origin }: Cluster): string => `${origin}${NAMESPACE}/sandboxwarmpools/cofferdam`

/** Makes a claim that no worker asked for. */
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

/** A merge patch of whatever object. */
export async function patched(url: string, change: object): Promise<void> {
  const { status } = await fetch(url, {
    method: 'PATCH',
    headers: { 'Content-Type': 'application/merge-patch+json' },
    body: JSON.stringify(change),
  })
  expect(status).toBe(200)
}

/** Sets the backstop, as the cluster's clock moves. */
export async function setShutdown(cluster: Cluster, claim: string, inMs: number): Promise<void> {
  const shutdownTime = new Date(Date.now() + inMs).toISOString()
  await patched(claimUrl(cluster, claim), { spec: { lifecycle: { shutdownTime } } })
}
