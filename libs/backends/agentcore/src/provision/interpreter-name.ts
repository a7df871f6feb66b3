/**
 * Names at the service. Creation, adoption and garbage collection use the same functions. So the collector
 * recognises every interpreter that we create and never deletes anybody else's.
 *
 *   <prefix>_<readable part of the tenant's id>_<16 hex of its hash>_<pub|int>      at most 48 characters
 */
import { createHash } from 'node:crypto'
import type { Environment } from '@cofferdam/contract'

/** 48 (the service's limit) minus prefix 12, hash 16, ending 3 and three underscores. */
const READABLE = 14
/** 64 bits of a hash of the tenant's ID: a collision would need billions of tenants. */
const HASH = 16
const ENDINGS: Readonly<Record<Environment, string>> = { 'default-public': 'pub', 'internal-only': 'int' }

/** The name of a tenant's interpreter. It depends only on the arguments. */
export function interpreterName(prefix: string, tenantId: string, environment: Environment): string {
  return `${tenantPart(prefix, tenantId)}_${ENDINGS[environment]}`
}

/** The name of a tenant's role, below the path `/<prefix>/`. */
export function roleName(prefix: string, tenantId: string): string {
  return tenantPart(prefix, tenantId)
}

/**
 * Whether `interpreterName` can have made the name with this prefix. Names with another prefix never match.
 */
export function isOurName(prefix: string, name: string): boolean {
  return new RegExp(`^${prefix}_[a-z0-9]{0,${READABLE}}_[0-9a-f]{${HASH}}_(pub|int)$`).test(name)
}

/**
 * A token that makes a repeated creation idempotent. The service may answer a token with an interpreter that
 * is gone by now, so the generation rises with each forgotten interpreter. It refuses a known token with
 * other parameters for ever, so the settings are part of the token.
 */
export function creationToken(name: string, generation: number, settings: unknown): string {
  return createHash('sha256')
    .update(JSON.stringify([name, generation, settings]))
    .digest('hex')
}

function tenantPart(prefix: string, tenantId: string): string {
  const readable = tenantId
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '')
    .slice(0, READABLE)
  const hash = createHash('sha256').update(tenantId).digest('hex').slice(0, HASH)
  return `${prefix}_${readable}_${hash}`
}
