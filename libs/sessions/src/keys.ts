/**
 * All keys of the registry. The keys of one script share a tenant's hash tag, so the scripts work on Redis
 * Cluster. The deadlines have the cell's tag, because the reaper reads those of all tenants. Names of
 * tenants and backends contain neither braces nor colons (contract: nameSchema), and session keys come last,
 * so members never collide.
 */
import type { SessionName } from '@cofferdam/contract'
import { cellOf } from '@cofferdam/queue/cell'
import type { Redis } from 'ioredis'

const prefix = (tenantId: string): string => `cfd:{${tenantId}}:`

export const keys = {
  session: (name: SessionName): string => `${prefix(name.tenantId)}session:${memberOf(name)}`,
  /** Sessions of a tenant by creation time. */
  tenant: (tenantId: string): string => `${prefix(tenantId)}sessions`,
  /**
   * Sessions of a backend by the time of their next check. `overdue` may move that time past the deadline.
   */
  due: (redis: Redis, backend: string): string => `${cellOf(redis).tag}:sessions-due:${backend}`,
}

/** A session's name inside its tenant. */
export const memberOf = (name: Pick<SessionName, 'backend' | 'key'>): string => `${name.backend}:${name.key}`

/** Inverse of `memberOf`. */
export function nameOfMember(tenantId: string, member: string): SessionName {
  const colon = member.indexOf(':')
  return { tenantId, backend: member.slice(0, colon), key: member.slice(colon + 1) }
}

/** A session's name inside its backend. */
export const dueMemberOf = (name: Pick<SessionName, 'tenantId' | 'key'>): string =>
  `${name.tenantId}:${name.key}`

/** Inverse of `dueMemberOf`. */
export function nameOfDueMember(backend: string, member: string): SessionName {
  const colon = member.indexOf(':')
  return { tenantId: member.slice(0, colon), backend, key: member.slice(colon + 1) }
}
