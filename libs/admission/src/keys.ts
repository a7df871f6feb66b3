/**
 * Every key that admission owns. All keys of one script call share the hash tag `{tenant}`, so the scripts are valid on
 * Redis Cluster. Tenant and agent names cannot hold braces or colons (contract: nameSchema), so names never collide.
 */
import type { ExecutionId } from '@cofferdam/contract'

/** One attempt: what is charged, leased, refunded. */
export interface AttemptKey {
  tenantId: string
  agentId: string
  executionId: ExecutionId
  attempt: number
  /** Which owner of the attempt asks: once a later one was admitted, an earlier one is `fenced`. Default 0. */
  fence?: number
}

const prefix = (tenantId: string): string => `cfd:{${tenantId}}:`

export const keys = {
  /** A rate that no tenant owns; lives a second longer than it says anything. */
  rate: (bucket: string): string => `cfd:rate:{${bucket}}`,
  /** Run id of the server under which the tenant's counters were made good. No expiry: one short string per tenant. */
  seeded: (tenantId: string): string => `${prefix(tenantId)}seeded`,
  /** The tenant's own caps. No expiry: the copy of Postgres that admission reads. */
  caps: (tenantId: string): string => `${prefix(tenantId)}caps`,
  day: (tenantId: string): string => `${prefix(tenantId)}day`,
  hour: (tenantId: string, agentId: string): string => `${prefix(tenantId)}hr:${agentId}`,
  /** What is reserved for attempts that have not been settled. Fades 49 h after the last admission. */
  open: (tenantId: string): string => `${prefix(tenantId)}open`,
  leases: (tenantId: string): string => `${prefix(tenantId)}lease`,
  tat: (tenantId: string): string => `${prefix(tenantId)}tat`,
  charge: (key: Pick<AttemptKey, 'tenantId' | 'executionId' | 'attempt'>): string =>
    `${prefix(key.tenantId)}charge:${leaseMember(key)}`,
}

/** The member of a lease, and the last part of a ledger entry's name: one per attempt. */
export const leaseMember = (key: Pick<AttemptKey, 'executionId' | 'attempt'>): string =>
  `${key.executionId}:${key.attempt}`

/** Inverse of `leaseMember`. */
export function attemptOfMember(member: string): Pick<AttemptKey, 'executionId' | 'attempt'> {
  const colon = member.lastIndexOf(':')
  return { executionId: member.slice(0, colon) as ExecutionId, attempt: Number(member.slice(colon + 1)) }
}
