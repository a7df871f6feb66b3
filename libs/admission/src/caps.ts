/**
 * A tenant's own caps in Redis: the JSON that was set, and the fields that the scripts read. setCaps is
 * called after the change is committed in Postgres, the source of truth, and takes effect with the next
 * admission.
 */
import { DEFAULT_TENANT_CAPS, parse, tenantCapsSchema, type TenantCaps } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { keys } from './keys.ts'
import type { Scripts } from './scripts.ts'

/** The hash fields of caps as a flat list. `rev` keeps older readers from overwriting newer caps. */
export function capsFields(caps: TenantCaps, rev: string): (string | number)[] {
  const fields: (string | number)[] = ['rev', rev, 'json', JSON.stringify(caps)]
  if (caps.tenant_daily !== null) fields.push('daily', caps.tenant_daily)
  if (caps.agent_hourly !== null) fields.push('hourly', caps.agent_hourly)
  if (caps.tenant_daily_cpu_seconds !== null) fields.push('cpu', caps.tenant_daily_cpu_seconds * 1000)
  if (caps.tenant_daily_cost !== null) fields.push('cost', caps.tenant_daily_cost)
  if (caps.concurrency !== null) fields.push('concurrency', caps.concurrency)
  if (caps.rate_per_second !== null) fields.push('rate', caps.rate_per_second, 'burst', caps.burst)
  for (const [agentId, cap] of Object.entries(caps.agents)) fields.push(`agent:${agentId}`, cap)
  return fields
}

/**
 * Replaces the caps in one step. Returns false if `since` is a rev and Redis has another one. Throws
 * CofferdamError('invalid_request') for invalid caps, and keeps the last valid ones.
 */
export async function writeCaps(
  scripts: Scripts,
  tenantId: string,
  caps: TenantCaps,
  rev: string,
  since = '*',
): Promise<boolean> {
  const valid = parse(tenantCapsSchema, caps, 'caps')
  const capsKeys = [keys.caps(tenantId), keys.seeded(tenantId)]
  const { code } = await scripts.run('set-caps', capsKeys, [since, ...capsFields(valid, rev)])
  return code === 'set'
}

/** The rev of the setting in force, '' for none. */
export async function readCapsRev(redis: Redis, tenantId: string): Promise<string> {
  return (await redis.hget(keys.caps(tenantId), 'rev')) ?? ''
}

/** The caps that were set last, or the defaults. */
export async function readCaps(redis: Redis, tenantId: string): Promise<TenantCaps> {
  const json = await redis.hget(keys.caps(tenantId), 'json')
  return json === null ? DEFAULT_TENANT_CAPS : parse(tenantCapsSchema, JSON.parse(json), 'stored caps')
}
