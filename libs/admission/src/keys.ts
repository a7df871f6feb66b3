/**
 * Every key that admission owns. All keys of one script call share the hash tag `{tenant}`, so the scripts
 * are valid on Redis Cluster. Tenant and agent names cannot hold braces or colons (contract: nameSchema), so
 * names never collide.
 */
import type { ExecutionId } from '@cofferdam/contract'

/** One attempt: the unit that is charged, leased and refunded. */
export interface AttemptKey {
  tenantId: string
  agentId: string
  executionId: ExecutionId
  attempt: number
  /**
   * Numbers the owners of the attempt. After a later one's admission, earlier ones are `fenced`. Default 0.
   */
  fence?: number
}

const prefix = (tenantId: string): string => `cfd:{${tenantId}}:`

export const keys = {
  /** A rate that no tenant owns. Expires a second after it has no effect any more. */
  rate: (bucket: string): string => `cfd:rate:{${bucket}}`,
  /** Run ID of the server for which the tenant's counters were verified. No expiry. */
  seeded: (tenantId: string): string => `${prefix(tenantId)}seeded`,
  /** The tenant's own caps, copied from Postgres. No expiry. */
  caps: (tenantId: string): string => `${prefix(tenantId)}caps`,
  day: (tenantId: string): string => `${prefix(tenantId)}day`,
  hour: (tenantId: string, agentId: string): string => `${prefix(tenantId)}hr:${agentId}`,
  /**
   * Reservations of attempts that are not settled. Expires 49 h after the last admission, or 3 days after a
   * seeding that added one.
   */
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
